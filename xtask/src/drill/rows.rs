//! The rows of the drill: what each tries, and its function.

use super::tally::Tally;
use super::workspace::Workspace;
use super::{crowds, deaths, disk, injection, repeated, strangers, suites, surroundings, warm};

/// One row of the table.
pub(super) struct Drill {
    pub(super) name: &'static str,
    /// What is tried, as worded in the table.
    pub(super) tries: &'static str,
    pub(super) run: fn(&Workspace) -> Result<Tally, String>,
}

/// The rows in the order of the table.
pub(super) const DRILLS: &[Drill] = &[
    Drill {
        name: "strangers-coordinator",
        tries: "connections to the coordinator that send nothing, garbage, a trickle, too much or a wrong token, while four \
                ranks wait, then work",
        run: strangers::coordinator,
    },
    Drill {
        name: "strangers-ranks",
        tries: "the same on the data ports of four ranks at work over sockets",
        run: strangers::ranks,
    },
    Drill {
        name: "dead-before-nccl",
        tries: "one of four ranks dies or ends with an error before it has called NCCL, unannounced",
        run: deaths::before_nccl,
    },
    Drill {
        name: "dead-at-work",
        tries: "one of four ranks dies by SIGKILL, SIGABRT or SIGTERM 5 ms to 2 s after its start, unannounced",
        run: deaths::at_work,
    },
    Drill {
        name: "stopped",
        tries: "one of four ranks is stopped (SIGSTOP) 50 ms to 2 s after its start",
        run: deaths::stopped,
    },
    Drill {
        name: "dead-workers",
        tries: "PyTorch DDP under torchrun: a worker or the agent is killed",
        run: deaths::torchrun,
    },
    Drill {
        name: "orders-of-death",
        tries: "runner, guard and coordinator are killed one after the other in every order, and at once",
        run: repeated::orders_of_death,
    },
    Drill {
        name: "full-disk",
        tries: "every command with stdout on /dev/full; runs on file systems of 0 KiB to 1 MiB",
        run: disk::full,
    },
    Drill {
        name: "surroundings",
        tries: "HOME, TMPDIR and caches missing, read-only or no directories; ulimit -v, -f, -n, -s, -t; no PATH",
        run: surroundings::poor,
    },
    Drill {
        name: "injection",
        tries: "programs print terminal sequences, XML, HTML, Markdown, commands of CI servers and secrets; every report is \
                searched for them",
        run: injection::all_reports,
    },
    Drill {
        name: "hostile-suites",
        tries: "suites, filters, expressions and paths that nest, repeat and multiply without end, in 2 GiB of addresses",
        run: suites::hostile,
    },
    Drill {
        name: "fuzz",
        tries: "mutations of the fuzz corpus: suites, filters, XML, frames, reports, event logs",
        run: repeated::fuzz,
    },
    Drill {
        name: "eight-at-once",
        tries: "eight runs at the same time, each with clusters of its own",
        run: crowds::eight,
    },
    Drill { name: "hundreds-of-ranks", tries: "64, 256 and 1024 native ranks in one cluster", run: crowds::hundreds },
    Drill {
        name: "same-reports",
        tries: "cluster reports of the suites dist and faults, without `measured`, compared byte for byte with the first run's",
        run: repeated::same_reports,
    },
    Drill {
        name: "warm-and-cold",
        tries: "suites with PyTorch (with --long: all), started warm and cold: verdicts, ends of processes, cluster and device reports without \
                `measured`",
        run: warm::warm_and_cold,
    },
    Drill {
        name: "one-sided",
        tries: "puts and signals over sockets, several cases at a time",
        run: repeated::one_sided,
    },
    Drill {
        name: "wild-processes",
        tries: "full pipes, ignored SIGTERM, daemons, herds, held streams, stopped processes (suite zoo)",
        run: repeated::zoo,
    },
];
