//! What a case leaves in `/dev/shm`.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use crate::program;

/// Removed at the end, whatever the test says.
struct Object(PathBuf);

impl Object {
    fn new(name: &str) -> Object {
        Object(PathBuf::from(format!("/dev/shm/ftest-{name}-{}", std::process::id())))
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn run(case: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("suite.yaml"), format!("ftest: 1\nsuite: s\ncases:\n{case}\n")).unwrap();
    let output = program::ftest()
        .args(["suite.yaml", "--no-fail-fast", "--jobs", "1"])
        .current_dir(directory.path())
        .env("TMPDIR", directory.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn shared_memory_is_a_leak_where_nothing_may_be_left() {
    let object = Object::new("left");
    let path = object.0.display();
    let printed =
        run(&format!("- {{ id: leaves, launch: {{ argv: [sh, -c, 'echo x > {path}'] }}, expect: {{ leaks: none }} }}"));
    assert!(printed.contains(&format!("got:      shared memory {path}")), "{printed}");
    assert!(object.0.exists(), "ftest cannot know whose it is");
    // The second time it was there before.
    let printed =
        run(&format!("- {{ id: uses, launch: {{ argv: [sh, -c, 'echo y > {path}'] }}, expect: {{ leaks: none }} }}"));
    assert!(!printed.contains(&path.to_string()), "{printed}");
}

#[test]
fn what_is_allowed_or_not_asked_for_is_no_leak() {
    let (allowed, plain, killed) = (Object::new("allowed"), Object::new("plain"), Object::new("killed"));
    let printed = run(&format!(
        "- {{ id: allowed, launch: {{ argv: [sh, -c, 'echo x > {}; sleep 60 >/dev/null 2>&1 &'] }}, expect: {{ leaks: allow }} }}\n\
         - {{ id: plain, launch: {{ argv: [sh, -c, 'echo x > {}'] }} }}\n\
         - {{ id: killed, launch: {{ argv: [sh, -c, 'echo x > {}; kill -KILL $$'] }}, \
              expect: {{ leaks: none, exit: {{ signal: SIGKILL }} }} }}",
        allowed.0.display(),
        plain.0.display(),
        killed.0.display()
    ));
    assert!(printed.contains("3 cases: 3 passed"), "{printed}");
}
