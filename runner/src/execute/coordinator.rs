//! The coordinator of one case: started, waited for until it says where it listens, ended in order.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use protocol::plan::ClusterPlan;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use super::clock::{Instant, timeout_at};
use super::process_tree::cookie::{Cookie, random_word};
use super::process_tree::process::{Event, Planned, Running, Texts};
use super::show::Streams;
use crate::case::Transport;
use crate::execute::launch::environment::{Endpoint, Environment};
use crate::observation::Role;

/// How long it may take until it listens.
const READY: Duration = Duration::from_secs(10);
/// What stands before the address on the line that announces it.
const ANNOUNCEMENT: &str = "listening on ";
/// How a line begins that tells of a hang.
pub const HANG: &str = "fakegpu-coordinator hang: ";
/// A longer path does not fit into `sockaddr_un`.
pub const SOCKET_PATH_LIMIT: usize = 107;

/// What to start.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    /// The binary.
    pub program: &'a Path,
    /// The cluster that it plays.
    pub cluster: Option<&'a ClusterPlan>,
    /// How ranks reach it.
    pub transport: Transport,
    /// Where its socket and streams go.
    pub scratch: &'a Path,
    /// Where it writes the cluster report.
    pub report: &'a Path,
    /// How long nothing may move before it says who waits for whom.
    pub idle: Option<Duration>,
    /// What differs from our environment.
    pub environment: Environment,
    /// What it starts when we vanish.
    pub heir: Vec<OsString>,
    /// The case's mark.
    pub cookie: &'a Cookie,
}

/// What ranks need to reach a coordinator that was started, apart from where it listens.
#[derive(Debug)]
pub struct Starting {
    transport: &'static str,
    token: String,
}

impl Plan<'_> {
    /// Starts it. Its end and its lines go to `events`.
    ///
    /// # Errors
    /// One sentence.
    pub fn start(self, events: &UnboundedSender<Event>) -> Result<(Running, Starting), String> {
        let token = random_word();
        let (transport, address) = match self.transport {
            Transport::Unix => ("unix", self.scratch.join("c.sock").display().to_string()),
            Transport::Tcp => ("tcp", "127.0.0.1:0".to_owned()),
        };
        if transport == "unix" && address.len() > SOCKET_PATH_LIMIT {
            return Err(format!("{address}: longer than the {SOCKET_PATH_LIMIT} bytes of a socket path; set TMPDIR"));
        }
        let mut environment = self.environment;
        // What a rank is told does not concern the coordinator, and what the user said about it stands on the line.
        environment.remove(protocol::env::COORDINATOR_ADDR.name).remove(protocol::env::COORDINATOR_TRANSPORT.name);
        environment.remove(protocol::env::CLUSTER_CONFIG.name);
        environment.set(protocol::env::COORDINATOR_TOKEN.name, &token);
        environment.set(protocol::env::COOKIE.name, self.cookie.part("coordinator").to_string());
        if let Some(cluster) = self.cluster {
            environment.cluster(cluster);
        }
        let mut argv: Vec<OsString> = vec![
            self.program.into(),
            "--transport".into(),
            transport.into(),
            "--address".into(),
            address.into(),
            "--report".into(),
            self.report.into(),
            // Standard input: when we vanish it ends ranks, and whoever can clear up does so, should our guard be gone, too.
            "--lifeline-fd".into(),
            "0".into(),
        ];
        argv.extend(self.heir.iter().flat_map(|word| ["--heir".into(), word.clone()]));
        if let Some(idle) = self.idle {
            argv.extend(["--idle-ms".into(), idle.as_millis().max(1).to_string().into()]);
        }
        let directory = self.scratch.to_owned();
        // It tells its ranks to end when it is alone, and clears up.
        let at_our_death = None;
        let (streams, texts) = (Streams::default(), Texts::default());
        let planned = Planned {
            role: Role::Coordinator,
            argv,
            environment,
            directory,
            lifeline: true,
            at_our_death,
            streams,
            texts,
        };
        Ok((planned.start(self.scratch, events, true)?, Starting { transport, token }))
    }
}

impl Starting {
    /// Waits until it listens.
    ///
    /// # Errors
    /// Why it does not: it ended, or did not say in time where it listens.
    pub async fn endpoint(
        self,
        running: &mut Running,
        received: &mut UnboundedReceiver<Event>,
    ) -> Result<Endpoint, String> {
        let deadline = Instant::now() + READY;
        loop {
            match timeout_at(deadline, received.recv()).await {
                Ok(Some(Event::Line(Role::Coordinator, line))) => {
                    let line = String::from_utf8_lossy(&line).into_owned();
                    if let Some((_, address)) = line.split_once(ANNOUNCEMENT) {
                        let address = address.trim().to_owned();
                        return Ok(Endpoint { transport: self.transport, address, token: self.token });
                    }
                }
                Ok(Some(Event::Ended(Role::Coordinator, exit))) => {
                    let why = format!("it {} before it listened", exit.clause());
                    running.exit = Some(exit);
                    return Err(why);
                }
                Ok(Some(_)) => {}
                Ok(None) => return Err("its events stopped".to_owned()),
                Err(_) => return Err(format!("it did not say within {} s where it listens", READY.as_secs())),
            }
        }
    }
}

/// The sentence on a coordinator that does not listen, with what it wrote.
pub async fn not_started(running: Running, why: &str) -> String {
    let (seen, _) = running.observe(Instant::now() + Duration::from_millis(500)).await;
    let said = String::from_utf8_lossy(&seen.stderr.head).trim().to_owned();
    format!("the coordinator could not be started: {why}{}{said}", if said.is_empty() { "" } else { ": " })
}

/// Where the report of a case goes.
pub fn report_path(scratch: &Path) -> PathBuf {
    scratch.join("cluster-report.json")
}
