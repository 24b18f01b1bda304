//! Checks of output that is longer than what is kept of it.

use std::fs;
use std::process::Stdio;

use crate::program;

/// Writes more than the 64 MiB that are kept, with words that occur only after them, and more behind those.
const PROGRAM: &str = "\
head -c 67108864 /dev/zero | tr '\\0' .
echo; echo behind it loss=7
head -c 1000000 /dev/zero | tr '\\0' .
echo; echo end loss=9
";

fn run(expect: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("program.sh"), PROGRAM).unwrap();
    let case = format!("{{ id: a, launch: {{ argv: [sh, program.sh] }}, expect: {expect} }}");
    fs::write(directory.path().join("suite.yaml"), format!("ftest: 1\nsuite: s\ncases:\n- {case}\n")).unwrap();
    let output = program::ftest()
        .args(["suite.yaml", "--no-fail-fast"])
        .current_dir(directory.path())
        .env("TMPDIR", directory.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn all_of_it_is_searched_for_texts() {
    let printed = run("{ stdout: [{ contains: [behind it, end] }, { absent: nowhere }] }");
    assert!(printed.contains("1 case: 1 passed"), "{printed}");
    let printed = run("{ stdout: [{ contains: nowhere }, { absent: behind it }] }");
    assert!(
        printed.contains("got:      launcher 0: not found in 68108894 bytes; the last line is: end loss=9\n"),
        "{printed}"
    );
    assert!(
        printed.contains("got:      launcher 0: byte 67108865, after the 67108864 bytes that are kept\n"),
        "{printed}"
    );
}

#[test]
fn what_an_expression_does_not_see_is_said() {
    let printed = run("{ stdout: [{ matches: ^end loss }, { matches: it loss }, \
         { matches: 'loss=(?<loss>.)', capture: loss }], invariants: [captures.loss == 7] }");
    let unseen = "`matches` does not see 901726 bytes after the first 67108864 (`contains` and `absent` do)";
    assert!(
        printed.contains(&format!("not found in 68108894 bytes; {unseen}; the last line is: end loss=9")),
        "{printed}"
    );
    assert!(printed.contains(&format!("the capture `loss` never matched; {unseen}")), "{printed}");
    assert_eq!(printed.matches("got: ").count(), 2, "{printed}");
}
