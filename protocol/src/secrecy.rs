//! What the run's token is used for on a network: the coordinator's key, for TLS connections to it, and the proofs that ranks
//! show each other. The token itself never crosses a network in the clear.

use std::num::NonZeroU32;
use std::sync::Arc;

use ring::{hmac, pbkdf2};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::{CryptoProvider, ring as provider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, CipherSuite, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig,
    SignatureScheme,
};

/// Rounds of PBKDF2: the cost of each guess for someone who has seen a key or a proof derived from the token.
const ROUNDS: NonZeroU32 = NonZeroU32::new(100_000).unwrap();
/// The bytes before the 32 bytes of an Ed25519 key in PKCS #8 (RFC 8410, section 7).
const PKCS8: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

/// The secret that everyone who has the run's token derives from it.
#[derive(Clone)]
pub struct Secret(hmac::Key);

impl std::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Secret")
    }
}

impl Secret {
    /// Derives the secret from the token, which takes on the order of ten milliseconds.
    pub fn from_token(token: &str) -> Self {
        let mut key = [0; 32];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, ROUNDS, b"ftest run", token.as_bytes(), &mut key);
        Self(hmac::Key::new(hmac::HMAC_SHA256, &key))
    }

    /// The secret, as text, from which ranks make the proofs that they show each other.
    pub fn between_ranks(&self) -> String {
        self.between(b"between ranks")
    }

    /// The secret, as text, of `ftest run --machines` and its agents.
    pub fn between_machines(&self) -> String {
        self.between(b"between machines")
    }

    fn between(&self, whom: &[u8]) -> String {
        hmac::sign(&self.0, whom).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The key with which the coordinator proves that it has the token.
    fn identity(&self) -> Result<Identity, Error> {
        Identity::derive(&self.0, b"coordinator")
    }

    /// The coordinator's side of TLS 1.3: its public key is the whole of its certificate (RFC 7250).
    ///
    /// # Errors
    /// The TLS library's, although it has everything that is requested here.
    pub fn server(&self) -> Result<Arc<ServerConfig>, Error> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(provider::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(self.identity()?.certified)));
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }

    /// The other side: it talks only to a coordinator that has the same token.
    ///
    /// # Errors
    /// As [`Self::server`].
    pub fn client(&self) -> Result<Arc<ClientConfig>, Error> {
        let provider = Arc::new(provider::default_provider());
        let expected = Expected { key: self.identity()?.public, provider: Arc::clone(&provider) };
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(expected))
            .with_no_client_auth();
        config.enable_sni = false;
        config.resumption = Resumption::disabled();
        Ok(Arc::new(config))
    }
}

/// Both sides of TLS 1.3 between ranks, or between ftest and an agent: whoever connects and whoever accepts each prove that they have
/// the secret.
pub struct BetweenRanks {
    /// The configuration of the side that accepts.
    pub server: Arc<ServerConfig>,
    /// The configuration of the side that connects.
    pub client: Arc<ClientConfig>,
}

impl BetweenRanks {
    /// Derives both sides from what [`Secret::between_ranks`] or [`Secret::between_machines`] returns.
    ///
    /// # Errors
    /// As [`Secret::server`].
    pub fn from_secret(secret: &str) -> Result<Self, Error> {
        let mut provider = provider::default_provider();
        // The fastest of the suites that processors accelerate.
        provider.cipher_suites.sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
        let provider = Arc::new(provider);
        let identity = Identity::derive(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), b"rank")?;
        let expected = Arc::new(Expected { key: identity.public, provider: Arc::clone(&provider) });
        let verifier: Arc<dyn ClientCertVerifier> = Arc::<Expected>::clone(&expected);
        let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::clone(&identity.certified))));
        server.send_tls13_tickets = 0;
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(expected)
            .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(identity.certified)));
        client.enable_sni = false;
        client.resumption = Resumption::disabled();
        Ok(Self { server: Arc::new(server), client: Arc::new(client) })
    }
}

/// An Ed25519 key, and its public half, which is the whole of its certificate (RFC 7250).
struct Identity {
    certified: Arc<CertifiedKey>,
    public: SubjectPublicKeyInfoDer<'static>,
}

impl Identity {
    fn derive(secret: &hmac::Key, what: &[u8]) -> Result<Self, Error> {
        let mut key = PKCS8.to_vec();
        key.extend_from_slice(hmac::sign(secret, what).as_ref());
        let key = provider::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(key))?;
        let public = key.public_key().map(SubjectPublicKeyInfoDer::into_owned);
        let public = public.ok_or_else(|| Error::General("an Ed25519 key without its public half".to_owned()))?;
        let certificate = CertificateDer::from(public.to_vec());
        Ok(Self { certified: Arc::new(CertifiedKey::new(vec![certificate], key)), public })
    }
}

/// The server name that TLS requires; only the coordinator's key counts.
pub fn server_name() -> ServerName<'static> {
    ServerName::try_from("coordinator").expect("a name of letters")
}

/// Whether a handshake failed because the coordinator has a different token.
pub fn is_other_token(error: &std::io::Error) -> bool {
    let error = error.get_ref().and_then(|error| error.downcast_ref::<Error>());
    matches!(error, Some(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure)))
}

/// Proof that a sender has `secret`, valid for these bytes only; empty if there is no secret.
pub fn proof(secret: &str, parts: &[&[u8]]) -> Vec<u8> {
    if secret.is_empty() {
        return Vec::new();
    }
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()));
    for part in parts {
        context.update(&(part.len() as u64).to_le_bytes());
        context.update(part);
    }
    context.sign().as_ref().to_vec()
}

/// Accepts only one key.
#[derive(Debug)]
struct Expected {
    key: SubjectPublicKeyInfoDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl Expected {
    fn accepts(&self, given: &CertificateDer<'_>) -> Result<(), Error> {
        if given.as_ref() != self.key.as_ref() {
            return Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure));
        }
        Ok(())
    }

    fn verify(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(certificate.as_ref());
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &key, signature, algorithms)
    }
}

/// Neither of our sides asks for TLS 1.2.
fn no_tls12() -> Error {
    Error::General("TLS 1.2 is not spoken".to_owned())
}

impl ServerCertVerifier for Expected {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.accepts(end_entity).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Expected {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.accepts(end_entity).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use rustls::{ClientConnection, ServerConnection};

    use super::*;

    /// Passes messages between `client` and `server` until neither has anything to send; returns all bytes that
    /// crossed.
    fn shake(client: &mut ClientConnection, server: &mut ServerConnection) -> Result<Vec<u8>, Error> {
        let mut crossed = Vec::new();
        while client.wants_write() || server.wants_write() {
            let (mut there, mut back) = (Vec::new(), Vec::new());
            while client.wants_write() {
                client.write_tls(&mut there).unwrap();
            }
            server.read_tls(&mut &there[..]).unwrap();
            server.process_new_packets()?;
            while server.wants_write() {
                server.write_tls(&mut back).unwrap();
            }
            client.read_tls(&mut &back[..]).unwrap();
            client.process_new_packets()?;
            crossed.extend(there.into_iter().chain(back));
        }
        Ok(crossed)
    }

    #[test]
    fn only_a_coordinator_with_the_same_token_hears_anything() {
        use std::io::{Read, Write};
        let mut server = ServerConnection::new(Secret::from_token("secret").server().unwrap()).unwrap();
        let mut client = ClientConnection::new(Secret::from_token("secret").client().unwrap(), server_name()).unwrap();
        shake(&mut client, &mut server).unwrap();
        client.writer().write_all(b"the token").unwrap();
        let crossed = shake(&mut client, &mut server).unwrap();
        assert!(!crossed.windows(9).any(|bytes| bytes == b"the token"), "it crossed in clear");
        let mut heard = [0; 9];
        server.reader().read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"the token");

        let mut impostor = ServerConnection::new(Secret::from_token("secreT").server().unwrap()).unwrap();
        let mut client = ClientConnection::new(Secret::from_token("secret").client().unwrap(), server_name()).unwrap();
        let error = shake(&mut client, &mut impostor).unwrap_err();
        assert!(is_other_token(&std::io::Error::new(std::io::ErrorKind::InvalidData, error)));
    }

    #[test]
    fn ranks_prove_to_each_other_that_they_have_the_secret() {
        let [ours, theirs] = ["secret", "secreT"].map(|secret| BetweenRanks::from_secret(secret).unwrap());
        let meet = |client: Arc<ClientConfig>, server: Arc<ServerConfig>| {
            let mut server = ServerConnection::new(server).unwrap();
            let mut client = ClientConnection::new(client, server_name()).unwrap();
            shake(&mut client, &mut server).map(|_| server.negotiated_cipher_suite().map(|suite| suite.suite()))
        };
        let met = meet(Arc::clone(&ours.client), Arc::clone(&ours.server)).unwrap();
        assert_eq!(met, Some(CipherSuite::TLS13_AES_128_GCM_SHA256));
        assert!(meet(Arc::clone(&theirs.client), Arc::clone(&ours.server)).is_err());
        // A rank that knows only the others' public key does not show a key of its own.
        let provider = Arc::new(provider::default_provider());
        let key = Identity::derive(&hmac::Key::new(hmac::HMAC_SHA256, b"secret"), b"rank").unwrap().public;
        let expected = Expected { key, provider: Arc::clone(&provider) };
        let nobody = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(expected))
            .with_no_client_auth();
        assert!(meet(Arc::new(nobody), Arc::clone(&ours.server)).is_err());
    }

    #[test]
    fn a_proof_is_for_what_it_was_made_for() {
        assert_eq!(proof("", &[b"a"]), b"");
        let proofs = [proof("s", &[b"a", b"bc"]), proof("s", &[b"ab", b"c"]), proof("t", &[b"a", b"bc"])];
        assert!(proofs[0] != proofs[1] && proofs[0] != proofs[2] && proofs[0] == proof("s", &[b"a", b"bc"]));
    }
}
