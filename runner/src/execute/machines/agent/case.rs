//! One case on the machine of an agent: its directory and its processes.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::process::Signal;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::mpsc::{Sender, UnboundedReceiver};
use tokio::task::JoinHandle;

use super::super::message::{Answer, Open, Order, Report, Start, ToRunner};
use super::files;
use super::moved::Moved;
use crate::execute::RunContext;
use crate::execute::hang::native_state;
use crate::execute::launch::environment::Environment;
use crate::execute::launch::holder_cache;
use crate::execute::launch::placement::node_cookie;
use crate::execute::process_tree::cookie::Cookie;
use crate::execute::process_tree::inherit::UmaskOf;
use crate::execute::process_tree::show::Streams;
use crate::execute::process_tree::sweep::Process;
use crate::execute::process_tree::{Event, ProcessPlan, ProcessTree, StartError, Texts};
use crate::execute::run::clock::{Instant, timeout_at};
use crate::execute::watch::kills;
use crate::host::{deadline, plain_path};
use crate::observation::{Role, SHARED};

/// Bytes of a stream in one message.
const PIECE: usize = 64 << 10;
/// What the paths of a case have to be.
const SAME: &str = "suites, programs and Python environments must be at the same paths on all machines";

/// A case on this machine.
struct Case {
    number: u64,
    context: Rc<RunContext>,
    reports: Sender<ToRunner>,
    /// Its directory, or why there is none.
    scratch: Result<PathBuf, String>,
    node: u32,
    moved: Moved,
    cookie: Cookie,
    tree: ProcessTree,
    /// Pass on what processes write.
    streams: Vec<JoinHandle<()>>,
}

/// Follows the orders about case `number` until the last, or until there is nobody to give any. Nothing of it is left then.
pub(super) async fn run(
    number: u64,
    context: Rc<RunContext>,
    mut orders: UnboundedReceiver<Order>,
    reports: Sender<ToRunner>,
) {
    let (scratch, cookie) = match context.open_case() {
        Ok((scratch, cookie)) => (Ok(scratch), cookie),
        Err(why) => (Err(why), context.cookie().part("none")),
    };
    let mut case = Case {
        number,
        reports,
        scratch,
        node: 0,
        moved: Moved::default(),
        tree: ProcessTree::new(cookie.clone()),
        cookie,
        streams: Vec::new(),
        context,
    };
    loop {
        let order = tokio::select! {
            event = case.tree.next() => {
                case.observe(event).await;
                continue;
            }
            order = orders.recv() => order,
        };
        match order {
            Some(Order::Close) => break case.close().await,
            Some(order) => case.follow(order).await,
            None => break,
        }
    }
    case.tree.kill().await;
    for stream in &case.streams {
        stream.abort();
    }
    if let Ok(scratch) = &case.scratch {
        case.context.remove(scratch);
    }
}

impl Case {
    async fn report(&self, report: Report) {
        // Nobody is there any more if the connection is lost.
        let _ = self.reports.send(ToRunner { case: self.number, report }).await;
    }

    async fn answer(&self, answer: Answer) {
        self.report(Report::Answer(answer)).await;
    }

    async fn observe(&self, event: Event) {
        if let Event::Ended(role, exit) = event {
            self.report(Report::Ended { role, exit }).await;
        }
    }

    async fn follow(&mut self, order: Order) {
        match order {
            Order::Open(open) => self.open(&open),
            Order::Start(start) => {
                let started = self.start(&start);
                self.answer(started.map_or_else(Answer::NotStarted, |pid| Answer::Started { pid })).await;
            }
            Order::Hit { kill, rank, signal } => {
                let sweep = self.tree.sweep();
                let targets = rank.map_or_else(|| sweep.find(), |rank| kills::processes_of(rank, sweep));
                let what = kills::send(signal, &targets);
                self.report(Report::Hit { kill, what }).await;
            }
            Order::Look => {
                let mut ranks: Vec<(u32, bool)> =
                    self.ranks().iter().filter_map(|process| Some((process.rank?, process.is_stopped()))).collect();
                ranks.sort_unstable();
                ranks.dedup();
                self.answer(Answer::Running(ranks)).await;
            }
            Order::State { missing, stacks } => {
                let lines = match &self.scratch {
                    Ok(scratch) => {
                        let place = scratch.join("native-state");
                        native_state::collect(&self.ranks(), &missing, stacks, &place).await.lines
                    }
                    Err(_) => Vec::new(),
                };
                self.answer(Answer::State(lines)).await;
            }
            Order::PrintStacks => {
                let pythons: Vec<Process> =
                    self.tree.sweep().find().into_iter().filter(Process::prints_stacks).collect();
                for process in &pythons {
                    process.signal(Signal::ABORT);
                }
                self.answer_when_gone(pythons);
            }
            Order::Terminate => {
                let asked = self.tree.ask_to_end();
                self.answer_when_gone(asked);
            }
            Order::End { normal } => self.end(normal).await,
            Order::Close => {}
        }
    }

    fn open(&mut self, open: &Open) {
        self.node = open.node;
        let Ok(scratch) = &self.scratch else { return };
        self.moved.add(&open.scratch, scratch);
        let mut prepared = Ok(());
        for name in [SHARED, "tmp"] {
            let made = std::fs::create_dir(scratch.join(name));
            prepared =
                prepared.and(made.map_err(|error| format!("cannot make {name} in {}: {error}", scratch.display())));
        }
        if let Some(holders) = &open.holders {
            let path = |path: &Option<_>| path.as_ref().map(PathBuf::from);
            let (libraries, smi) = (path(&holders.libraries), path(&holders.smi));
            let shim = Path::new(&holders.shim);
            let made = if shim.is_file() {
                holder_cache::directory(shim, libraries.as_deref(), smi.as_deref())
            } else {
                Err(format!("there is no {}; ftest must be at the same path on all machines", shim.display()))
            };
            prepared = prepared.and(made.map(|made| self.moved.add(&holders.directory, &made)));
        }
        if let Err(why) = prepared {
            self.context.remove(scratch);
            self.scratch = Err(why);
        }
    }

    fn start(&mut self, start: &Start) -> Result<i32, String> {
        self.scratch.clone()?;
        for (link, target) in &start.links {
            let own = plain_path::again(Path::new(target))?;
            if own != Path::new(link) {
                self.moved.add(link, &own);
            }
        }
        let directory = PathBuf::from(self.moved.apply(&start.directory));
        if !directory.is_dir() {
            return Err(format!("there is no working directory {}; {SAME}", directory.display()));
        }
        let moved = |text: &_| self.moved.apply(text);
        let variables = start.environment.iter().map(|(name, value)| (name.clone(), moved(value)));
        let mut environment = Environment::exactly(variables);
        environment.set(protocol::env::COOKIE.name, node_cookie(&self.cookie, self.node).to_string());
        let plan = ProcessPlan {
            role: start.role,
            argv: start.argv.iter().map(|word| moved(word)).collect(),
            environment,
            directory,
            lifeline: false,
            at_our_death: start.at_our_death.and_then(Signal::from_named_raw),
            streams: Streams::Captured,
            umask: UmaskOf::Case,
            network: None,
            texts: Texts::default(),
        };
        let (pid, pipes) = self.tree.start_open(&plan).map_err(|error| match error {
            StartError::Program(_) => format!("{error}; {SAME}"),
            _ => error.to_string(),
        })?;
        for (stream, is_error) in pipes.into_iter().zip([false, true]) {
            let passing = pass_on(stream, self.number, (start.role, is_error), self.reports.clone());
            self.streams.push(tokio::spawn(passing));
        }
        Ok(pid)
    }

    fn ranks(&self) -> Vec<Process> {
        self.tree.sweep().find().into_iter().filter(|process| process.rank.is_some()).collect()
    }

    /// Answers when these processes have ended, and does not wait for that.
    fn answer_when_gone(&self, processes: Vec<Process>) {
        let (sweep, case, reports) = (self.tree.sweep().clone(), self.number, self.reports.clone());
        tokio::spawn(async move {
            // Long before, they are killed.
            if sweep.wait(processes, Instant::now() + deadline::MACHINE).await.is_empty() {
                let _ = reports.send(ToRunner { case, report: Report::Answer(Answer::Gone) }).await;
            }
        });
    }

    async fn end(&mut self, normal: bool) {
        let swept = if normal {
            self.tree.let_leave(&self.context.cancel).await;
            self.tree.kill_leftovers().await
        } else {
            self.tree.kill().await
        };
        let limit = Instant::now() + deadline::KILLED;
        while let Some(event) = self.tree.next_while_alive(limit).await {
            self.observe(event).await;
        }
        while let Some(event) = self.tree.try_next() {
            self.observe(event).await;
        }
        let limit = Instant::now() + deadline::LEAVING;
        for stream in &mut self.streams {
            // One that does not end is held open by a process that was not found; ftest reports that.
            let _ = timeout_at(limit, stream).await;
        }
        self.streams.retain(|stream| !stream.is_finished());
        self.answer(Answer::Swept { killed: swept.killed, unkillable: swept.unkillable }).await;
    }

    async fn close(&self) {
        if let Ok(scratch) = &self.scratch {
            for answer in files::answers(scratch, self.node) {
                self.answer(answer).await;
            }
        }
        self.answer(Answer::Closed).await;
    }
}

/// Sends what comes, and an empty piece at the end.
async fn pass_on(mut stream: pipe::Receiver, case: u64, (role, is_error): (Role, bool), reports: Sender<ToRunner>) {
    loop {
        let mut bytes = Vec::with_capacity(PIECE);
        // A stream that breaks has ended.
        let read = stream.read_buf(&mut bytes).await.unwrap_or(0);
        let report = Report::Output { role, is_error, bytes };
        if reports.send(ToRunner { case, report }).await.is_err() || read == 0 {
            return;
        }
    }
}
