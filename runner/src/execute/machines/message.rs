//! What ftest and its agents say to each other. Both are the same version of ftest, which the first exchange makes sure of.

use std::ffi::OsString;

use serde::{Deserialize, Serialize};

use crate::observation::{Exit, Role};

/// The first message, from the agent. It is the same in every version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    /// The version of its ftest.
    pub(super) version: String,
    /// The name of its machine.
    pub(super) host: String,
}

/// The answer to [`Hello`]: the number of the machine from 1, or why it may not join. It is the same in every version.
pub(super) type Welcome = Result<u32, String>;

/// From ftest to an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ToAgent {
    /// Concerns one case.
    Case {
        /// Its number in the run.
        case: u64,
        /// What to do.
        order: Order,
    },
    /// The run has ended.
    Done,
}

/// What an agent does for a case, in the order of arrival.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Order {
    /// Prepare a directory.
    Open(Open),
    /// Start a process. Answered by [`Answer::Started`] or [`Answer::NotStarted`].
    Start(Box<Start>),
    /// Send a signal that the case asks for (`kill`). Reported by [`Report::Hit`].
    Hit {
        /// The index of the `kill` in the case.
        kill: u32,
        /// A rank, or everything on this machine.
        rank: Option<u32>,
        /// The signal's number.
        signal: i32,
    },
    /// Which ranks run, also as workers of torchrun. Answered by [`Answer::Running`].
    Look,
    /// What the ranks are doing. Answered by [`Answer::State`].
    State {
        /// The ranks that others wait for.
        missing: Vec<u32>,
        /// Whether gdb looks at them as well.
        stacks: bool,
    },
    /// Let Python print its stacks. Answered by [`Answer::Gone`] when those processes have ended.
    PrintStacks,
    /// Ask all processes to end. Answered by [`Answer::Gone`] when they have.
    Terminate,
    /// Kill what is left. Answered by [`Answer::Swept`], after all output.
    End {
        /// The processes ended by themselves: whatever outlived them gets time to leave.
        normal: bool,
    },
    /// Hand over the files, and forget the case. Answered by [`Answer::File`] and [`Answer::Link`] for each, then
    /// [`Answer::Closed`].
    Close,
}

/// The directory of a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Open {
    /// The node of the cluster that this machine is.
    pub(super) node: u32,
    /// The directory of the case on the machine of ftest. In arguments and variables, the agent's own directory replaces it.
    pub(super) scratch: OsString,
    /// The libraries in place of NVIDIA's, if the case has GPUs.
    pub(super) holders: Option<Holders>,
}

/// The libraries in place of NVIDIA's: each machine makes them, and its directory replaces that of ftest's machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::execute) struct Holders {
    /// Their directory on the machine of ftest.
    pub(in crate::execute) directory: OsString,
    /// The shim.
    pub(in crate::execute) shim: OsString,
    /// PyTorch's libraries.
    pub(in crate::execute) libraries: Option<OsString>,
    /// `fakegpu-smi`.
    pub(in crate::execute) smi: Option<OsString>,
}

/// A process to start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Start {
    /// What it is.
    pub(super) role: Role,
    /// Program and arguments.
    pub(super) argv: Vec<OsString>,
    /// Its whole environment, apart from the mark of the case.
    pub(super) environment: Vec<(OsString, OsString)>,
    /// Its working directory.
    pub(super) directory: OsString,
    /// The links that the paths above may go through, and where they lead. Each machine makes its own.
    pub(super) links: Vec<(OsString, OsString)>,
    /// The number of the signal that it gets when the agent is gone.
    pub(super) at_our_death: Option<i32>,
}

/// From an agent to ftest: about one case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ToRunner {
    /// Its number in the run.
    pub(super) case: u64,
    /// What there is to say.
    pub(super) report: Report,
}

/// What an agent says about a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Report {
    /// A process wrote something.
    Output {
        /// What it is.
        role: Role,
        /// Whether to standard error.
        is_error: bool,
        /// The bytes; none at the end of the stream.
        bytes: Vec<u8>,
    },
    /// A process ended.
    Ended {
        /// What it was.
        role: Role,
        /// How.
        exit: Exit,
    },
    /// A signal was sent, or not.
    Hit {
        /// The index of the `kill` in the case.
        kill: u32,
        /// What was done, in words.
        what: String,
    },
    /// Answers the order before.
    Answer(Answer),
}

/// The answer to an [`Order`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Answer {
    /// A process runs.
    Started {
        /// Its id on its machine.
        pid: i32,
    },
    /// A process was not started: why.
    NotStarted(String),
    /// The ranks that run, each with whether it is stopped.
    Running(Vec<(u32, bool)>),
    /// A line for each process of a rank.
    State(Vec<String>),
    /// The processes have ended.
    Gone,
    /// What was left.
    Swept {
        /// What had to be killed.
        killed: Vec<String>,
        /// What did not go away.
        unkillable: Vec<String>,
    },
    /// A piece of a file, to be appended.
    File {
        /// Its name below the directory of the case.
        name: String,
        /// The piece.
        bytes: Vec<u8>,
    },
    /// A symbolic link.
    Link {
        /// Its name below the directory of the case.
        name: String,
        /// Its text.
        text: String,
    },
    /// There is nothing of the case any more.
    Closed,
}
