//! The script `./ftest` of a checkout: when it builds, what it says then, and that the caller's directory stays the caller's.
//! Cargo is a script that writes what Cargo would.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use crate::executable;

/// Writes the programs, and beside each what it is made from; notes each build in the file `builds`.
const CARGO: &str = r#"#!/bin/sh
echo "$PWD" >> "$CHECKOUT/builds"
[ ! -e "$CHECKOUT/broken" ] || { echo "error: broken" >&2; exit 101; }
release=$CARGO_TARGET_DIR/release
escaped=$(printf '%s' "$CHECKOUT" | sed 's/ /\\ /g')
echo made > "$release/profiles.json"
for name in ftest fgpu fakegpu-coordinator fakegpu-ptxas fakegpu-smi libfakegpu.so libfakegpu_nccl.so libfakegpu_cuda.so libfakegpu_date.so fixture-split; do
    printf '#!/bin/sh\necho "$PWD: $*"\n' > "$release/$name"
    chmod +x "$release/$name"
    echo "$release/$name: $escaped/commands/src/main.rs $escaped/profiles $escaped/target/release/profiles.json" \
        > "$release/${name%.so}.d"
done
"#;

/// A checkout below a directory with spaces and quotes in its name.
struct Checkout {
    root: PathBuf,
    _directory: TempDir,
}

impl Checkout {
    fn new() -> Checkout {
        let directory = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(directory.path()).unwrap().join("a 'checkout' for \"$me\", 100%");
        for folder in ["bin", "commands/src", "commands/tests", "profiles", "elsewhere"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        for file in ["Cargo.toml", "Cargo.lock", "commands/Cargo.toml", "commands/src/main.rs"] {
            fs::write(root.join(file), "").unwrap();
        }
        let script = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../ftest")).unwrap();
        executable::write(&root.join("ftest"), &script);
        executable::write(&root.join("bin/cargo"), CARGO);
        Checkout { root, _directory: directory }
    }

    /// `../ftest ARGUMENTS` in the directory `elsewhere`.
    fn command(&self, arguments: &[&str]) -> Command {
        let path = format!("{}:{}", self.root.join("bin").display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("../ftest");
        command.args(arguments).current_dir(self.root.join("elsewhere"));
        command.env("CHECKOUT", &self.root).env("PATH", path);
        command.env_remove("CARGO_TARGET_DIR").env_remove("FTEST_PROGRAMS");
        command
    }

    /// What it prints, and says on stderr.
    fn run(&self, arguments: &[&str]) -> (String, String) {
        let output = self.command(arguments).output().unwrap();
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    }

    /// The directories in which cargo was called so far.
    fn builds(&self) -> Vec<String> {
        let text = fs::read_to_string(self.root.join("builds")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Whether `ftest` builds again when `file` is newer than the last build.
    fn builds_for(&self, file: &str) -> bool {
        let before = self.builds().len();
        let path = self.root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        // Far from the time of the build: files are stamped by a coarse clock.
        let opened = if path.is_dir() { File::open(&path) } else { File::create(&path) }.unwrap();
        opened.set_modified(SystemTime::now() + Duration::from_secs(60)).unwrap();
        self.run(&[]);
        let built = self.builds().len() > before;
        opened.set_modified(SystemTime::now() - Duration::from_secs(60)).unwrap();
        self.run(&[]);
        built
    }
}

#[test]
fn the_directory_and_the_words_stay_the_callers_also_when_it_builds() {
    let checkout = Checkout::new();
    let printed = format!("{}: run ./mine.yaml a  b\n", checkout.root.join("elsewhere").display());
    for _ in ["built", "not built"] {
        assert_eq!(checkout.run(&["run", "./mine.yaml", "a  b"]).0, printed);
    }
    assert_eq!(checkout.builds(), [checkout.root.to_str().unwrap()]);
}

#[test]
fn a_directory_that_cargo_cannot_build_in_is_refused() {
    let checkout = Checkout::new();
    let output = checkout.command(&[]).env("CARGO_TARGET_DIR", "a:b").output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(3) && text.contains("set CARGO_TARGET_DIR to another"), "{text}");
    assert!(checkout.builds().is_empty());
}

#[test]
fn only_what_the_build_reads_is_built_again() {
    let checkout = Checkout::new();
    checkout.run(&[]);
    for file in ["commands/.ftest/runs/1/events.jsonl", "commands/tests/x.rs", "commands/src/notes.md", "suites/x.yaml"]
    {
        assert!(!checkout.builds_for(file), "{file}");
    }
    for file in
        ["commands/src/main.rs", "profiles", "Cargo.toml", "Cargo.lock", "commands/Cargo.toml", ".cargo/config.toml"]
    {
        assert!(checkout.builds_for(file), "{file}");
    }
    let before = checkout.builds().len();
    fs::remove_file(checkout.root.join("commands/src/main.rs")).unwrap();
    checkout.run(&[]);
    assert_eq!(checkout.builds().len(), before + 1, "a source that is gone");
}

#[test]
fn given_programs_run_without_a_build() {
    let checkout = Checkout::new();
    let program = checkout.root.join("given programs/ftest");
    fs::create_dir(program.parent().unwrap()).unwrap();
    executable::write(&program, "#!/bin/sh\necho \"given, in $FTEST_HOME: $*\"\n");
    let given = checkout.command(&["smoke"]).env("FTEST_PROGRAMS", "../given programs").output().unwrap();
    let printed = format!("given, in {}: smoke\n", checkout.root.display());
    assert_eq!(String::from_utf8(given.stdout).unwrap(), printed);

    let missing = checkout.command(&["smoke"]).env("FTEST_PROGRAMS", "../runner").output().unwrap();
    assert_eq!(missing.status.code(), Some(3));
    assert_eq!(
        String::from_utf8(missing.stderr).unwrap(),
        "ftest: FTEST_PROGRAMS=../runner: there is no program ftest; build it, or unset the variable\n"
    );
    assert!(checkout.builds().is_empty());
}

#[test]
fn a_build_without_a_terminal_says_when_it_begins_and_ends() {
    let checkout = Checkout::new();
    let printed = checkout.run(&[]).1;
    let lines: Vec<&str> = printed.lines().collect();
    let [begin, end] = lines[..] else { panic!("{printed}") };
    let target = checkout.root.join("target");
    assert_eq!(
        begin,
        format!(
            "ftest: building in {}: 5 to 6 minutes on two cores the first time, less after a change",
            target.display()
        )
    );
    assert!(end.starts_with("ftest: built in ") && end.ends_with(" s"), "{end}");
    assert_eq!(checkout.run(&[]).1, "");

    fs::write(checkout.root.join("broken"), "").unwrap();
    File::open(checkout.root.join("profiles"))
        .unwrap()
        .set_modified(SystemTime::now() + Duration::from_secs(60))
        .unwrap();
    let printed = checkout.run(&[]);
    assert_eq!(printed.0, "", "the old programs do not run");
    assert!(printed.1.ends_with("error: broken\nftest: the build failed; see above\n"), "{}", printed.1);
}
