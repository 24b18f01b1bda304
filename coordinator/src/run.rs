//! Connects socket, sessions and driver, and ends them in order.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use model::cluster::Cluster;
use model::cluster::report::RunFacts;
use model::exchange::ConnectionId;
use protocol::secrecy::Secret;
use tokio::sync::{mpsc, watch};
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use crate::driver::{Driver, End};
use crate::endpoint::{BindError, Endpoint};
use crate::machine::{self, Machine};
use crate::pending::Pending;
use crate::report_file::{ReportError, ReportFile};
use crate::returns::Returns;
use crate::session::{self, Shared};
use crate::settings::Settings;

/// Events that may wait for the driver before sessions stop reading.
const PENDING_EVENTS: usize = 256;
/// After the farewell, peers have this long to read it.
const FAREWELL_DEADLINE: Duration = Duration::from_secs(1);
/// How many connections are accepted before the accepted ones are read.
const ACCEPTED_AT_ONCE: u64 = 32;
/// How long accepting pauses when the process is out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why a run did not end cleanly.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The coordinator cannot listen.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The key derived from the token cannot be used.
    #[error("TLS: {0}")]
    Tls(#[from] tokio_rustls::rustls::Error),
    /// The report could not be written.
    #[error(transparent)]
    Report(#[from] ReportError),
}

impl RunError {
    /// The exit code: 2 for what the user wrote, 1 for what the system refused.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Bind(BindError::Place { .. } | BindError::NeedsToken(_)) => 2,
            Self::Bind(BindError::System { .. }) | Self::Tls(_) | Self::Report(_) => 1,
        }
    }
}

/// Simulates the cluster until `stop` completes or a control client asks for the end. `ready` gets the address that
/// ranks can connect to, once they can.
///
/// # Errors
/// [`RunError`] if it cannot listen or cannot write the report; failures of clients are not errors.
pub async fn run(
    settings: Settings,
    ready: impl FnOnce(&str),
    stop: impl Future<Output = End>,
) -> Result<(), RunError> {
    let endpoint = Endpoint::bind(&settings.address, settings.token.is_some()).await?;
    let address = endpoint.address().to_owned();
    let report = settings.report.map(|json| ReportFile {
        facts: RunFacts {
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            transport: settings.address.transport().to_owned(),
            address: address.clone(),
            source_root: settings.source_root.map(|path| path.display().to_string()),
            config_path: settings.config_path.map(|path| path.display().to_string()),
            markdown_report_path: settings.markdown_report.as_ref().map(|path| path.display().to_string()),
            monotonic_zero_us: monotonic_zero_us(),
        },
        json,
        markdown: settings.markdown_report,
    });
    let mut cluster = Cluster::new(model::cluster::Settings {
        plan: settings.plan,
        timeout_us: settings.timeout.as_micros() as u64,
        max_operations: settings.max_operations,
        boot: machine::boot(),
    });
    cluster.asks_for(settings.faults.clone());
    let machine = Machine { file: settings.machine, faults: settings.faults };
    let driver = Driver::new(cluster, report, settings.idle, machine)?;
    let (sender, mut events) = mpsc::channel(PENDING_EVENTS);
    let (close, closing) = watch::channel(false);
    let over_network = address.parse::<SocketAddr>().is_ok_and(|address| !address.ip().is_loopback());
    let token = settings.token.as_deref().filter(|_| over_network);
    let tls = token.map(|token| Secret::from_token(token).server()).transpose()?;
    let shared = Shared { token: settings.token, tls, events: sender, returns: Returns::default(), closing };
    let acceptor = tokio::spawn(accept(endpoint, shared));
    ready(&address);
    let result = driver.drive(&mut events, stop).await;
    acceptor.abort();
    // The end of the acceptor frees the socket file; being aborted is how it ends.
    let _ = acceptor.await;
    close.send_replace(true);
    // Sessions hold the senders: the queue ends with the last of them.
    let _ = timeout(FAREWELL_DEADLINE, async { while events.recv().await.is_some() {} }).await;
    Ok(result?)
}

async fn accept(endpoint: Endpoint, shared: Shared) {
    let pending = Pending::default();
    for number in 1.. {
        let stream = loop {
            match endpoint.accept().await {
                Ok(stream) => break stream,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                // The process is out of descriptors or memory: a connection without a hello goes first, then only time or a closed one helps.
                Err(_) if pending.evict_oldest() => yield_now().await,
                Err(_) => sleep(ACCEPT_PAUSE).await,
            }
        };
        let slot = pending.admit(number);
        tokio::spawn(session::serve(stream, ConnectionId(number), slot, shared.clone()));
        // A hello that has arrived is read before its connection can be dropped.
        if number % ACCEPTED_AT_ONCE == 0 {
            yield_now().await;
        }
    }
}

/// The wall-clock time when the monotonic clock, by which ranks time what they do, was zero; us since 1970.
fn monotonic_zero_us() -> Option<u64> {
    let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok()?;
    let monotonic = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let monotonic = Duration::new(monotonic.tv_sec.try_into().ok()?, monotonic.tv_nsec.try_into().ok()?);
    u64::try_from(wall.checked_sub(monotonic)?.as_micros()).ok()
}
