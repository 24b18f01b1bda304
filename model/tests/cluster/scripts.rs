//! Conversations with a cluster, as text: `> command` lines are said, what follows each is what came back.
//! `cargo xtask regen` rewrites the answers.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use crate::harness::{World, failure, member, plan, record};
use model::exchange::{ConnectionId, Input, Output};
use protocol::datatype::Operation;
use protocol::ids::{CommunicatorId, Rank, Sequence};
use protocol::message::{ToCoordinator, ToRank};
use protocol::record::ErrorCode;

#[test]
fn scripts() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut seen = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let script = std::fs::read_to_string(&path).unwrap();
        let answers = play(&script);
        if std::env::var_os("FTEST_REGEN").is_some() {
            std::fs::write(&path, &answers).unwrap();
        } else {
            assert_eq!(
                answers,
                script,
                "{}: answers differ; `cargo xtask regen model-scripts` rewrites them",
                path.display()
            );
        }
        seen += 1;
    }
    assert!(seen > 0);
}

fn play(script: &str) -> String {
    let mut world = World::new(Some(plan(2, 2)), 100);
    let mut out = String::new();
    for line in script.lines() {
        if line.is_empty() || line.starts_with('#') {
            writeln!(out, "{line}").unwrap();
            // A comment after a blank line starts a new story.
            if line.is_empty() {
                world = World::new(Some(plan(2, 2)), 100);
            }
        } else if let Some(command) = line.strip_prefix("> ") {
            writeln!(out, "{line}").unwrap();
            for answer in answers(&mut world, command) {
                writeln!(out, "{answer}").unwrap();
            }
        }
    }
    out
}

fn answers(world: &mut World, command: &str) -> Vec<String> {
    let mut words = command.split(' ');
    let verb = words.next().unwrap();
    let process: u64 = words.next().map_or(0, |word| word.parse().unwrap());
    let fields: BTreeMap<&str, &str> = words.clone().filter_map(|word| word.split_once('=')).collect();
    let number = |key: &str| fields.get(key).map_or(0, |value| value.parse::<u64>().unwrap());
    let rank = || Rank(number("rank") as u32);
    let communicator = || CommunicatorId(number("comm").max(1));
    let operation = || {
        fields.get("op").map_or(Operation::AllReduce, |name| {
            *Operation::ALL.iter().find(|operation| operation.name() == *name).unwrap()
        })
    };
    let mut own_member = member(process as u32, 100 + process as u32);
    own_member.gpu = process << 8 | number("rank");
    let message = match verb {
        "join" => return show(world.join(process)),
        "init" => ToCoordinator::InitCommunicator {
            request: number("request"),
            unique_id: vec![fields["id"].as_bytes()[0]; 128],
            size: number("size") as u32,
            rank: rank(),
            member: own_member,
        },
        "split" => ToCoordinator::SplitCommunicator {
            request: number("request"),
            parent: communicator(),
            sequence: Sequence(number("seq")),
            rank: rank(),
            color: fields.get("color").map(|color| color.parse().unwrap()),
            key: number("key") as i32,
            member: own_member,
        },
        "shrink" => ToCoordinator::ShrinkCommunicator {
            request: number("request"),
            parent: communicator(),
            sequence: Sequence(number("seq").max(1)),
            rank: rank(),
            excluded: fields["without"].split(',').map(|rank| Rank(rank.parse().unwrap())).collect(),
            abort: fields.contains_key("abort"),
            member: own_member,
        },
        "grow" => ToCoordinator::GrowCommunicator {
            request: number("request"),
            parent: communicator(),
            sequence: Sequence(number("seq").max(1)),
            size: number("size") as u32,
            rank: rank(),
            member: own_member,
        },
        "revoke" => ToCoordinator::RevokeCommunicator { communicator: communicator(), rank: rank() },
        "leave" | "abort" => {
            let aborted = match fields.get("failed") {
                Some(why) => Some((ErrorCode::InjectedRankFailure, why.replace('_', " "))),
                None => (verb == "abort").then(|| (ErrorCode::Aborted, "it aborted".to_owned())),
            };
            ToCoordinator::LeaveCommunicator { communicator: communicator(), rank: rank(), aborted }
        }
        "bye" => ToCoordinator::Goodbye,
        "done" => {
            let mut record = record(operation(), number("seq"), rank().0, 1);
            record.communicator = communicator();
            record.peer = fields.get("peer").map(|peer| Rank(peer.parse().unwrap()));
            ToCoordinator::Completed { records: vec![record] }
        }
        "failed" => {
            let code = if fields.contains_key("mismatch") { ErrorCode::CountMismatch } else { ErrorCode::RankLost };
            let culprits: Vec<u32> = fields.get("culprit").iter().map(|rank| rank.parse().unwrap()).collect();
            let failure = failure(operation(), number("seq"), rank().0, code, &culprits, 4);
            ToCoordinator::Failed { failure }
        }
        "gone" => {
            let reason = fields.get("reason").map(|reason| reason.replace('_', " "));
            return show(world.step(Input::Disconnected { connection: ConnectionId(process), reason }));
        }
        "wait" => {
            world.now_us += process * 1_000_000;
            return show(world.step(Input::Tick));
        }
        "deadline" => return vec![format!("{:?}", world.cluster.deadline())],
        "recoveries" => {
            let report = world.report();
            let times = report.measured.recoveries.iter().map(|recovery| recovery.recovery_time_us);
            let events = report.resilience.recovery_events.iter().zip(times);
            let ranks = |ranks: &[Rank]| format!("{:?}", ranks.iter().map(|rank| rank.0).collect::<Vec<_>>());
            return events
                .map(|(event, us)| {
                    format!(
                        "{} {}:{} to {}{} without {} with {} after {us} us",
                        event.index,
                        event.parent_comm_id,
                        event.seqno,
                        event.new_comm_id,
                        if event.abort_parent { " abort" } else { "" },
                        ranks(&event.excluded_ranks),
                        ranks(&event.surviving_ranks),
                    )
                })
                .collect();
        }
        "failures" => {
            let report = world.report();
            let details = report.measured.failures.iter().map(|failure| failure.error_detail.as_str());
            let events = report.resilience.failure_events.iter().zip(details);
            return events
                .map(|(event, detail)| {
                    let comm = event.comm_id.map_or(0, |id| id.0);
                    let ranks = |ranks: &[Rank]| format!("{:?}", ranks.iter().map(|rank| rank.0).collect::<Vec<_>>());
                    format!(
                        "{} {}:{} {} {} {} culprits {} observed {} {} B: {detail}",
                        event.index,
                        comm,
                        event.seqno,
                        event.operation,
                        event.source.name(),
                        word(event.error_code),
                        ranks(&event.culprits),
                        ranks(&event.observed_ranks),
                        event.attempted_payload_bytes
                    )
                })
                .collect();
        }
        other => panic!("no verb {other}"),
    };
    show(world.say(process, message))
}

fn word(code: ErrorCode) -> String {
    serde_json::to_value(code).unwrap().as_str().unwrap().to_owned()
}

fn show(outputs: Vec<Output>) -> Vec<String> {
    outputs
        .into_iter()
        .map(|output| match output {
            Output::Close { connection, reason } => format!("{} closed: {reason}", connection.0),
            Output::Send { connection, message } => {
                let text = match message {
                    ToRank::Welcome { .. } => "welcome".to_owned(),
                    ToRank::CommunicatorFormed { request, communicator, rank, members } => {
                        let globals: Vec<u32> = members.iter().map(|member| member.global_rank.0).collect();
                        format!("{request} formed {communicator} as {rank} of {globals:?}")
                    }
                    ToRank::NoCommunicator { request } => format!("{request} none"),
                    ToRank::RequestFailed { request, code, detail } => {
                        format!("{request} failed {}: {detail}", word(code))
                    }
                    ToRank::MemberLost { communicator, rank, code, detail } => {
                        format!("lost {rank} of {communicator} {}: {detail}", word(code))
                    }
                    other => format!("{other:?}"),
                };
                format!("{} <- {text}", connection.0)
            }
        })
        .collect()
}
