//! Who is let in.

use protocol::message::{Role, ToCoordinator, ToRank, VERSION};

use crate::harness::{Coordinator, info};

fn refusal(answer: Option<ToRank>) -> String {
    match answer {
        Some(ToRank::Refused { reason }) => reason,
        other => panic!("not refused but {other:?}"),
    }
}

#[test]
fn a_token_keeps_strangers_out() {
    for transport in ["unix", "tcp"] {
        let coordinator = Coordinator::start_with(transport, |command| {
            command.env("FAKEGPU_COORDINATOR_TOKEN", "secret");
        });
        for token in ["", "secreT", "secret2"] {
            let mut stranger = coordinator.connect();
            stranger.hello(token, Role::Process(info(1)));
            assert!(refusal(stranger.receive()).contains("token"));
            assert_eq!(stranger.receive(), None);
        }
        let mut friend = coordinator.connect();
        friend.hello("secret", Role::Control);
        assert!(matches!(friend.receive(), Some(ToRank::Welcome { .. })));
    }
}

#[test]
fn another_version_and_no_hello_are_refused() {
    let coordinator = Coordinator::start("unix");
    let mut other = coordinator.connect();
    other.send(&ToCoordinator::Hello { version: VERSION + 1, token: String::new(), role: Role::Control });
    assert!(refusal(other.receive()).contains("version"));
    let mut silent = coordinator.connect();
    silent.send(&ToCoordinator::Shutdown);
    assert!(refusal(silent.receive()).contains("hello"));
    coordinator.control().status();
}

#[test]
fn the_socket_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let coordinator = Coordinator::start("unix");
    let mode = std::fs::metadata(coordinator.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_control_client_is_no_rank_and_a_rank_no_control_client() {
    let coordinator = Coordinator::start("unix");
    let mut control = coordinator.control();
    control.init(1, 1, 0);
    assert_eq!(control.receive(), None);
    let mut rank = coordinator.process(100);
    rank.send(&ToCoordinator::Shutdown);
    assert!(rank.status().contains("\"pid\":100"));
}
