//! The coordinator of one case: started, waited for until it reports where it listens, ended in order.

pub mod control;
pub mod discover;

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use protocol::announcement::Announcement;
use protocol::plan::ClusterPlan;

use super::network::Network;
use super::network::port::Namespace;
use super::process_tree::cookie::random_word;
use super::process_tree::inherit::UmaskOf;
use super::process_tree::{COORDINATOR, Event, ProcessPlan, ProcessTree, Texts};
use crate::case::Transport;
use crate::execute::launch::environment::{Endpoint, Environment};
use crate::execute::process_tree::show::Streams;
use crate::execute::run::clock::{Instant, timeout_at};
use crate::host::deadline;
use crate::observation::Role;

/// A longer path does not fit into `sockaddr_un`.
pub const SOCKET_PATH_LIMIT: usize = 107;

/// What to start.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    /// The binary.
    pub program: &'a Path,
    /// The cluster that it simulates.
    pub cluster: Option<&'a ClusterPlan>,
    /// How ranks reach it.
    pub transport: Transport,
    /// The network that it is in; if absent, this machine's.
    pub network: Option<&'a Network>,
    /// The address of this machine at which ranks on other machines reach it, over tcp, or the unspecified one for all of them; if
    /// absent, all ranks are here.
    pub reached_at: Option<IpAddr>,
    /// Where its socket and streams go.
    pub scratch: &'a Path,
    /// Where it writes the cluster report.
    pub report: &'a Path,
    /// Where its ranks are started: program files are named relative to it, or to the enclosing repository.
    pub directory: &'a Path,
    /// How long nothing may progress before it reports which ranks wait for which.
    pub idle: Option<Duration>,
    /// Changes relative to our environment.
    pub environment: Environment,
    /// The command it starts if we disappear.
    pub successor: Vec<OsString>,
}

/// What ranks need to reach a started coordinator, apart from where it listens.
#[derive(Debug)]
pub struct Starting {
    transport: &'static str,
    token: String,
    from: Option<Namespace>,
}

impl Plan<'_> {
    /// Starts it in `tree`.
    ///
    /// # Errors
    /// One sentence.
    pub fn start(self, tree: &mut ProcessTree) -> Result<Starting, String> {
        let token = random_word();
        let (transport, address) = match self.transport {
            Transport::Unix => ("unix", self.scratch.join("c.sock").display().to_string()),
            Transport::Tcp => {
                let apart = self.network.map(|network| network.coordinator_address().into()).or(self.reached_at);
                ("tcp", SocketAddr::new(apart.unwrap_or(Ipv4Addr::LOCALHOST.into()), 0).to_string())
            }
        };
        if transport == "unix" && address.len() > SOCKET_PATH_LIMIT {
            return Err(format!("{address}: longer than the {SOCKET_PATH_LIMIT} bytes of a socket path; set TMPDIR"));
        }
        let mut environment = self.environment;
        // Settings for ranks do not concern the coordinator; the user's settings for it are on its command line.
        environment.remove(protocol::env::COORDINATOR_ADDR.name).remove(protocol::env::COORDINATOR_TRANSPORT.name);
        environment.remove(protocol::env::CLUSTER_CONFIG.name);
        environment.set(protocol::env::COORDINATOR_TOKEN.name, &token);
        environment.set(protocol::env::COOKIE.name, tree.sweep().cookie.part(COORDINATOR).to_string());
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
            "--source-root".into(),
            source_root(self.directory).into(),
            // Standard input tells it when we disappear: it then ends the ranks, and cleans up if our guard is gone,
            // too.
            "--lifeline-fd".into(),
            "0".into(),
        ];
        argv.extend(self.successor.iter().flat_map(|word| ["--successor".into(), word.clone()]));
        if let Some(idle) = self.idle {
            argv.extend(["--idle-ms".into(), idle.as_millis().max(1).to_string().into()]);
        }
        let directory = self.scratch.to_owned();
        // When it is left alone, it ends its ranks and cleans up.
        let at_our_death = None;
        let (streams, texts) = (Streams::default(), Texts::default());
        let planned = ProcessPlan {
            role: Role::Coordinator,
            argv,
            environment,
            directory,
            lifeline: true,
            at_our_death,
            streams,
            umask: UmaskOf::User,
            network: self.network.map(|network| network.coordinator().clone()),
            texts,
        };
        tree.start(&planned, self.scratch, true).map_err(|error| format!("{}: {error}", Role::Coordinator))?;
        let from = self.network.map(|network| network.coordinator().clone());
        Ok(Starting { transport, token, from })
    }
}

impl Starting {
    /// Waits until it listens.
    ///
    /// # Errors
    /// It ended, or did not report in time where it listens.
    pub async fn endpoint(self, tree: &mut ProcessTree) -> Result<Endpoint, String> {
        let limit = deadline::COORDINATOR_READY;
        let deadline = Instant::now() + limit;
        loop {
            match timeout_at(deadline, tree.next()).await {
                Ok(Event::Line(Role::Coordinator, line)) => {
                    if let Some(Announcement::Listening(address)) = announcement(&line) {
                        let Starting { transport, token, from } = self;
                        return Ok(Endpoint { transport, address: from_here(address), token, from });
                    }
                }
                Ok(Event::Ended(Role::Coordinator, exit)) => {
                    return Err(format!("it {} before it listened", exit.clause()));
                }
                Ok(_) => {}
                Err(_) => return Err(format!("it did not report within {} s where it listens", limit.as_secs())),
            }
        }
    }
}

/// Where this machine reaches a coordinator that listens at `address`: by loopback if it listens everywhere.
fn from_here(address: String) -> String {
    match address.parse::<SocketAddr>() {
        Ok(everywhere) if everywhere.ip().is_unspecified() => {
            SocketAddr::new(Ipv4Addr::LOCALHOST.into(), everywhere.port()).to_string()
        }
        _ => address,
    }
}

/// The repository that contains `directory`; `directory` itself if there is none.
fn source_root(directory: &Path) -> PathBuf {
    // As programs see it: they know their working directory with links resolved.
    let directory = std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    let repository = directory.ancestors().find(|ancestor| ancestor.join(".git").exists());
    repository.map_or_else(|| directory.clone(), Path::to_owned)
}

/// The announcement in a line of its stdout, if any.
pub fn announcement(line: &[u8]) -> Option<Announcement> {
    Announcement::parse(&String::from_utf8_lossy(line))
}

/// The message about a coordinator that does not listen, with its output.
pub async fn not_started(tree: &mut ProcessTree, why: &str) -> String {
    let mut sentence = format!("the coordinator could not be started: {why}");
    if let Some(running) = tree.take_coordinator() {
        let (seen, _) = running.observe(Instant::now() + deadline::LEAVING).await;
        let stderr = String::from_utf8_lossy(&seen.stderr.head);
        if !stderr.trim().is_empty() {
            sentence.push_str(": ");
            sentence.push_str(stderr.trim());
        }
    }
    sentence
}

/// Where the report of a case goes.
pub fn report_path(scratch: &Path) -> PathBuf {
    scratch.join("cluster-report.json")
}
