//! What the run's token is used for on a network: the coordinator's key, for TLS connections to it, and the proofs that ranks
//! show each other. The token itself never crosses a network in the clear.

use std::num::NonZeroU32;
use std::sync::Arc;

use ring::{hmac, pbkdf2};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring as provider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, ServerConfig, SignatureScheme};

/// Rounds of PBKDF2: the cost of each guess for somebody who saw a key or a proof derived from the token.
const ROUNDS: NonZeroU32 = NonZeroU32::new(100_000).unwrap();
/// What comes before the 32 bytes of an Ed25519 key in PKCS #8 (RFC 8410, section 7).
const PKCS8: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

/// What everybody who has the run's token derives from it.
#[derive(Clone)]
pub struct Secret(hmac::Key);

impl std::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Secret")
    }
}

impl Secret {
    /// Derives it, which takes on the order of ten milliseconds.
    pub fn of(token: &str) -> Self {
        let mut key = [0; 32];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, ROUNDS, b"ftest run", token.as_bytes(), &mut key);
        Self(hmac::Key::new(hmac::HMAC_SHA256, &key))
    }

    /// The secret, as text, from which ranks make the proofs that they show each other.
    pub fn between_ranks(&self) -> String {
        hmac::sign(&self.0, b"between ranks").as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The key with which the coordinator proves that it has the token.
    fn identity(&self) -> Result<Arc<dyn SigningKey>, Error> {
        let mut key = PKCS8.to_vec();
        key.extend_from_slice(hmac::sign(&self.0, b"coordinator").as_ref());
        provider::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(key))
    }

    fn public(&self) -> Result<SubjectPublicKeyInfoDer<'static>, Error> {
        let key = self.identity()?.public_key().map(SubjectPublicKeyInfoDer::into_owned);
        key.ok_or_else(|| Error::General("an Ed25519 key without its public half".to_owned()))
    }

    /// The coordinator's side of TLS 1.3: its public key is the whole of its certificate (RFC 7250).
    ///
    /// # Errors
    /// Those of the library, which has what is asked for here.
    pub fn server(&self) -> Result<Arc<ServerConfig>, Error> {
        let certificate = CertificateDer::from(self.public()?.to_vec());
        let identity = Arc::new(CertifiedKey::new(vec![certificate], self.identity()?));
        let mut config = ServerConfig::builder_with_provider(Arc::new(provider::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(identity)));
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }

    /// The other side: it talks only to a coordinator that has the same token.
    ///
    /// # Errors
    /// As [`Self::server`].
    pub fn client(&self) -> Result<Arc<ClientConfig>, Error> {
        let provider = Arc::new(provider::default_provider());
        let expected = Expected { key: self.public()?, provider: Arc::clone(&provider) };
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

/// The server name that TLS requires; what counts is the coordinator's key.
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

impl ServerCertVerifier for Expected {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if end_entity.as_ref() != self.key.as_ref() {
            return Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure));
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is not spoken".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(certificate.as_ref());
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &key, signature, algorithms)
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
        let mut server = ServerConnection::new(Secret::of("secret").server().unwrap()).unwrap();
        let mut client = ClientConnection::new(Secret::of("secret").client().unwrap(), server_name()).unwrap();
        shake(&mut client, &mut server).unwrap();
        client.writer().write_all(b"the token").unwrap();
        let crossed = shake(&mut client, &mut server).unwrap();
        assert!(!crossed.windows(9).any(|bytes| bytes == b"the token"), "it crossed in clear");
        let mut heard = [0; 9];
        server.reader().read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"the token");

        let mut impostor = ServerConnection::new(Secret::of("secreT").server().unwrap()).unwrap();
        let mut client = ClientConnection::new(Secret::of("secret").client().unwrap(), server_name()).unwrap();
        let error = shake(&mut client, &mut impostor).unwrap_err();
        assert!(is_other_token(&std::io::Error::new(std::io::ErrorKind::InvalidData, error)));
    }

    #[test]
    fn a_proof_is_for_what_it_was_made_for() {
        assert_eq!(proof("", &[b"a"]), b"");
        let proofs = [proof("s", &[b"a", b"bc"]), proof("s", &[b"ab", b"c"]), proof("t", &[b"a", b"bc"])];
        assert!(proofs[0] != proofs[1] && proofs[0] != proofs[2] && proofs[0] == proof("s", &[b"a", b"bc"]));
    }
}
