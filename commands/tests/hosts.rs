//! Nodes that are apart, from outside: what a case says when it does not pass, what is left when ftest is killed, and what happens
//! where the namespaces are not allowed. The suite `hosts` has real programs on them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::program;
use crate::waiting::until;

fn write(place: &Path, network: &str, script: &str) {
    let script = script.replace('"', "\\\"");
    let suite = format!(
        "ftest: 1\nsuite: s\ncases:\n- id: a\n  cluster: {{ nodes: 2, gpus_per_node: 1, profile: a100 }}\n  network: {network}\n  \
         launch: {{ argv: [bash, -c, \"{script}\"], ranks: 2 }}\n"
    );
    fs::write(place.join("s.yaml"), suite).unwrap();
}

fn run(mut command: Command, place: &Path) -> Output {
    command.args(["run", "s.yaml"]).current_dir(place).env("TMPDIR", place).env("NO_COLOR", "1");
    command.stdin(Stdio::null()).output().unwrap()
}

/// What it printed; none where this machine has no such networks, as the case then says.
fn printed(output: &Output) -> Option<String> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if text.contains("1 skipped") {
        assert!(text.contains("nodes that are apart need network namespaces"), "{text}");
        eprintln!("not tested: {text}");
        return None;
    }
    Some(text)
}

#[test]
fn a_case_that_does_not_pass_names_slow_links_and_cut_ones() {
    let place = tempfile::tempdir_in("/tmp").unwrap();
    let network = "{ links: [{ between: [node1, node0], delay: 80ms }], \
                   cuts: [{ node: node0, when: { output: now }, for: 100s }, { between: [node1, coordinator], when: { output: never } }] }";
    // A packet to the other host; another when nothing gets there any more.
    let script =
        "ip=10.0.0.$((2 - RANK)); echo x > /dev/udp/$ip/9; echo now; sleep 0.5; echo y > /dev/udp/$ip/9; exit 3";
    write(place.path(), network, script);
    let Some(text) = printed(&run(program::ftest(), place.path())) else { return };
    for part in [
        "all links of node0 cut for 100 s when rank 0 wrote \"now\"",
        "the link between node0 and node1 (80 ms) carried ",
        "dropped while the link was cut",
        "rank 0 never wrote a line that matches /never/",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn without_the_privileges_a_case_is_skipped_for_that_reason() {
    let place = tempfile::tempdir_in("/tmp").unwrap();
    write(place.path(), "{}", "exit 0");
    // Who has no capabilities cannot drop any.
    let drop = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"];
    let words = if fs::metadata("/proc/self").unwrap().uid() == 0 { &drop[..] } else { &[] };
    let output = run(program::behind(words), place.path());
    assert_eq!(printed(&output), None, "{output:?}");
    assert_eq!(output.status.code(), Some(0));
    let mut command = program::behind(words);
    command.arg("--deny-skip");
    let output = command.args(["s.yaml"]).current_dir(place.path()).env("TMPDIR", place.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

#[test]
fn nothing_is_left_of_a_network_when_ftest_is_killed() {
    let place = tempfile::tempdir_in("/tmp").unwrap();
    write(place.path(), "{ delay: 1ms }", "echo $$ > new.$RANK; mv new.$RANK rank.$RANK; exec sleep 987");
    let mut command = program::ftest();
    command.args(["run", "s.yaml"]).current_dir(place.path()).env("TMPDIR", place.path());
    let mut runner = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let number =
        |rank: u32| fs::read_to_string(place.path().join(format!("rank.{rank}"))).ok()?.trim().parse::<i32>().ok();
    let started = until("both ranks run", || match (number(0), number(1)) {
        (Some(one), Some(other)) => Some(Some([one, other])),
        _ => runner.try_wait().unwrap().map(|_| None),
    });
    let Some(ranks) = started else {
        let output = runner.wait_with_output().unwrap();
        assert!(printed(&output).is_none());
        return;
    };
    let spaces = ranks.map(|pid| fs::read_link(format!("/proc/{pid}/ns/net")).unwrap());
    let own = fs::read_link("/proc/self/ns/net").unwrap();
    assert!(spaces[0] != spaces[1] && !spaces.contains(&own), "{spaces:?}");
    kill_process(Pid::from_raw(runner.id() as i32).unwrap(), Signal::KILL).unwrap();
    runner.wait().unwrap();
    // A namespace without a name, a process or a descriptor is none.
    until("the namespaces are gone", || {
        let held = fs::read_dir("/proc").unwrap().flatten().any(|process| {
            let of = |entry: &Path| fs::read_link(entry).is_ok_and(|link| spaces.contains(&link));
            let descriptors = fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
            process.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit)
                && (of(&process.path().join("ns/net")) || descriptors.map(|one| one.path()).any(|one| of(&one)))
        });
        (!held).then_some(())
    });
}
