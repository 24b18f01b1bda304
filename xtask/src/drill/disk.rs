//! Disks without room.

use std::fs;

use super::attempts::attempts;
use super::command::PATIENCE;
use super::tally::Tally;
use super::workspace::Workspace;

const SUITE: &str = "ftest: 1
suite: full
cases:
  - id: sums
    cluster: { nodes: 1, gpus_per_node: 2, profile: a100 }
    timeout: 60s
    launch: { argv: [fixture-collectives, all_reduce], ranks: 2 }
";

/// Commands whose only purpose is their output.
const COMMANDS: [&str; 11] = [
    "run full.yaml",
    "run full.yaml --list",
    "check full.yaml",
    "explain full.yaml",
    "runs",
    "replay",
    "profiles",
    "schema",
    "completions bash",
    "doctor",
    "bench --ranks 2 -b 4K -e 4K",
];

/// Sizes of file systems, KiB.
const SIZES: [usize; 8] = [4, 16, 64, 128, 256, 384, 512, 1024];

pub(super) fn full(workspace: &Workspace) -> Result<Tally, String> {
    workspace.write("full.yaml", SUITE)?;
    let mut tally = Tally::new("runs");
    let fine = workspace.run(&mut workspace.ftest(&["run", "full.yaml"]), PATIENCE)?;
    fine.expect(&[0])?;
    for command in COMMANDS {
        let ended =
            workspace.run(&mut workspace.ftest_after(&format!("set -- {command}; exec > /dev/full"), &[]), PATIENCE)?;
        let outcome = ended.expect(&[3]).and_then(|()| mentions(&ended.err, "No space left on device"));
        tally.add(&format!("{command} > /dev/full"), ended.took, outcome);
    }
    for option in ["--junit", "--html", "--markdown", "--trace"] {
        let _ = fs::remove_file(workspace.path("link"));
        std::os::unix::fs::symlink("/dev/full", workspace.path("link")).map_err(|error| error.to_string())?;
        let ended = workspace.run(&mut workspace.ftest(&["run", "full.yaml", option, "link"]), PATIENCE)?;
        let outcome = ended.expect(&[3]).and_then(|()| mentions(&ended.err, "No space left on device"));
        tally.add(&format!("{option} /dev/full"), ended.took, outcome);
    }
    small_file_systems(workspace, &mut tally)?;
    Ok(tally)
}

fn mentions(text: &str, what: &str) -> Result<(), String> {
    if text.contains(what) { Ok(()) } else { Err(format!("`{what}` is not said: {text}")) }
}

/// Scratch, kept runs and reports on file systems of all sizes. They disappear with their own mount namespace.
fn small_file_systems(workspace: &Workspace, tally: &mut Tally) -> Result<(), String> {
    let rights = if workspace.run(&mut workspace.command("unshare", &["-m", "true"]), PATIENCE)?.code() == 0 {
        "-m"
    } else {
        "-rm"
    };
    let possible = "mkdir -p try && mount -t tmpfs -o size=64k none try";
    if workspace.run(&mut workspace.command("unshare", &[rights, "sh", "-c", possible]), PATIENCE)?.code() != 0 {
        tally.note("no small file systems: this user may not mount any".to_owned());
        return Ok(());
    }
    for size in SIZES {
        for what in ["scratch", "runs", "reports", "all"] {
            let on = |name: &str| if what == name || what == "all" { format!("small/{name}") } else { name.to_owned() };
            let (scratch, runs, reports) = (on("scratch"), on("runs"), on("reports"));
            ["scratch", "runs", "reports"].iter().for_each(|name| drop(fs::remove_dir_all(workspace.path(name))));
            let script = format!(
                "mkdir -p small && mount -t tmpfs -o size={size}k none small && mkdir -p {scratch} {runs} {reports} saved && \
                 TMPDIR=$PWD/{scratch} '{}' run full.yaml --runs-dir {runs} --junit {reports}/out.xml; code=$?; \
                 rm -rf saved/*; cp {reports}/out.xml saved/ 2>/dev/null; exit $code",
                workspace.program("ftest").display()
            );
            let mut command = workspace.command("unshare", &[rights, "sh", "-c", &script]);
            let ended = workspace.run(&mut command, PATIENCE)?;
            let outcome = ended.expect(&[0, 3]).and_then(|()| {
                let junit = fs::read_to_string(workspace.path("saved/out.xml")).unwrap_or_default();
                let whole = junit.contains("tests=\"1\"") && junit.ends_with("</testsuites>\n");
                match (ended.code(), junit.is_empty()) {
                    (0, _) if !whole => Err(format!("ended with 0 and no whole JUnit file: {}", ended.text())),
                    (0, _) if what != "scratch" && !kept(workspace, &runs) => mentions(&ended.err, "not kept"),
                    (0, _) => Ok(()),
                    (_, false) if !whole => Err("the JUnit file is cut".to_owned()),
                    _ => mentions(&ended.text(), "No space left")
                        .or_else(|why| mentions(&ended.text(), "no room").or(Err(why))),
                }
            });
            tally.add(&format!("{what} on {size} KiB"), ended.took, outcome);
        }
    }
    Ok(())
}

/// Whether a run was kept outside the small file system.
fn kept(workspace: &Workspace, runs: &str) -> bool {
    runs.starts_with("small/") || attempts(&workspace.path(runs)).is_ok()
}
