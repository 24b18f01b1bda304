//! A machine that has joined a run, as ftest sees it: orders go there, and what it says goes to the case that it concerns.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use super::connection::{Reader, Writer};
use super::message::{Answer, Order, Report, ToAgent, ToRunner};
use crate::execute::process_tree::Event;
use crate::observation::{Exit, Role};

/// A machine that has joined.
#[derive(Debug)]
pub(super) struct Machine {
    /// Its place in the run, from 1.
    pub(super) number: u32,
    /// Its name.
    pub(super) host: String,
    /// Where it is.
    pub(super) address: IpAddr,
    orders: UnboundedSender<ToAgent>,
    state: Arc<Mutex<State>>,
    /// Sends the orders.
    writing: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct State {
    /// Why it is lost, once it is.
    lost: Option<String>,
    cases: HashMap<u64, Listener>,
}

/// Where reports about a case go.
#[derive(Debug)]
struct Listener {
    /// The name of the node.
    node: String,
    events: UnboundedSender<Event>,
    answers: UnboundedSender<Answer>,
    streams: BTreeMap<(Role, bool), DuplexStream>,
    running: BTreeSet<Role>,
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.host, self.address)
    }
}

impl Machine {
    /// The machine at the other end of a connection.
    pub(super) fn new(number: u32, host: String, address: IpAddr, ends: (Reader, Writer)) -> Machine {
        let (orders, queue) = unbounded_channel();
        let state = Arc::new(Mutex::new(State::default()));
        let writing = tokio::spawn(write(ends.1, queue));
        tokio::spawn(read(ends.0, Arc::clone(&state), format!("{host} ({address})")));
        Machine { number, host, address, orders, state, writing: Mutex::new(Some(writing)) }
    }

    /// Opens a case that has `node` there: its events go to `events`, and the answers to its orders are returned.
    ///
    /// # Errors
    /// The machine is lost: one sentence.
    pub(super) fn open(
        &self,
        case: u64,
        node: &str,
        events: &UnboundedSender<Event>,
    ) -> Result<UnboundedReceiver<Answer>, String> {
        let mut state = self.state.lock();
        if let Some(why) = &state.lost {
            return Err(format!("{node} cannot run on {self}, which was lost earlier in this run: {why}"));
        }
        let (answers, received) = unbounded_channel();
        let (streams, running) = Default::default();
        state.cases.insert(case, Listener { node: node.to_owned(), events: events.clone(), answers, streams, running });
        Ok(received)
    }

    /// What `role` of a case writes there from now on also arrives at `streams`: standard output and standard error.
    pub(super) fn follow(&self, case: u64, role: Role, streams: [DuplexStream; 2]) {
        if let Some(listener) = self.state.lock().cases.get_mut(&case) {
            let [output, error] = streams;
            listener.streams.insert((role, false), output);
            listener.streams.insert((role, true), error);
            listener.running.insert(role);
        }
    }

    /// Nothing will be heard from `role` of a case.
    pub(super) fn forget_role(&self, case: u64, role: Role) {
        if let Some(listener) = self.state.lock().cases.get_mut(&case) {
            listener.streams.retain(|(other, _), _| *other != role);
            listener.running.remove(&role);
        }
    }

    /// Nothing of the case is left there.
    pub(super) fn forget(&self, case: u64) {
        self.state.lock().cases.remove(&case);
    }

    /// How `node` was lost, if the machine is: one sentence.
    pub(super) fn loss_of(&self, node: &str) -> Option<String> {
        self.state.lock().lost.as_ref().map(|why| loss(node, &self.to_string(), why))
    }

    /// Gives an order. A lost machine gets none.
    pub(super) fn order(&self, case: u64, order: Order) {
        let _ = self.orders.send(ToAgent::Case { case, order });
    }

    /// Tells it that the run has ended, and waits until that was sent.
    pub(super) async fn dismiss(&self) {
        let _ = self.orders.send(ToAgent::Done);
        let writing = self.writing.lock().take();
        if let Some(writing) = writing {
            let _ = writing.await;
        }
    }
}

/// One sentence.
fn loss(node: &str, machine: &str, why: &str) -> String {
    format!("{node} was lost with its machine, {machine}: {why}")
}

async fn write(mut writer: Writer, mut orders: UnboundedReceiver<ToAgent>) {
    while let Some(order) = orders.recv().await {
        // The reader notices the loss.
        if writer.send(&order).await.is_err() || order == ToAgent::Done {
            break;
        }
    }
    writer.close().await;
}

/// Passes on what comes, until the machine is lost.
async fn read(mut reader: Reader, state: Arc<Mutex<State>>, machine: String) {
    let why = loop {
        match reader.next::<ToRunner>().await {
            Ok(Some(message)) => pass_on(&state, message).await,
            Ok(None) => break "its agent ended".to_owned(),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => break "its agent ended".to_owned(),
            Err(error) => break error.to_string(),
        }
    };
    let mut state = state.lock();
    for (_, listener) in state.cases.drain() {
        // A receiver that is gone needs nothing any more.
        let _ = listener.events.send(Event::Lost(loss(&listener.node, &machine, &why)));
        for role in listener.running {
            let _ = listener.events.send(Event::Ended(role, Exit::Unknown));
        }
    }
    state.lost = Some(why);
}

async fn pass_on(state: &Mutex<State>, message: ToRunner) {
    let ToRunner { case, report } = message;
    if let Report::Output { role, is_error, bytes } = report {
        let stream = state.lock().cases.get_mut(&case).and_then(|case| case.streams.remove(&(role, is_error)));
        // An empty piece ends the stream, which closes when it is dropped.
        if let Some(mut stream) = stream.filter(|_| !bytes.is_empty())
            && stream.write_all(&bytes).await.is_ok()
            && let Some(listener) = state.lock().cases.get_mut(&case)
        {
            listener.streams.insert((role, is_error), stream);
        }
        return;
    }
    let mut state = state.lock();
    let Some(listener) = state.cases.get_mut(&case) else { return };
    // A receiver that is gone needs nothing any more.
    match report {
        Report::Output { .. } => {}
        Report::Ended { role, exit } => {
            listener.running.remove(&role);
            let _ = listener.events.send(Event::Ended(role, exit));
        }
        Report::Hit { kill, what } => _ = listener.events.send(Event::Hit(kill as usize, what)),
        Report::Answer(answer) => _ = listener.answers.send(answer),
    }
}
