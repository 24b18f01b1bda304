//! Keeps docs/environment.md equal to the table in `protocol::env`. `cargo xtask regen environment` rewrites it.

use std::fmt::Write as _;
use std::{env, fs, path::Path};

#[test]
fn the_page_is_the_table() {
    let mut page = String::from(
        "# Environment variables\n\n\
         After reading this page you can configure every part of ftest by variables, also where there is no flag for it.\n\n\
         - A flag of `ftest` or `fgpu` wins over its variable.\n\
         - A value that is not listed is an error that names the variable.\n\
         - An empty variable counts as unset, including those of others (`TMPDIR`, `PATH`, `HOME`, `CI`, ...).\n\
         - A relative path starts in the working directory.\n\n\
         The last three columns say where a value counts: in `env` of a case, in the environment of `ftest run`, and in that of `fgpu` or\n\
         `ftest exec`. *Refused* is a mistake in the suite; *noted* is a line on stderr: cases do not see the variable. A name that\n\
         starts like one of these and is none of them is refused or noted, too.\n\n\
         Generated from `protocol/src/env.rs` by `cargo xtask regen environment`.\n\n\
         | variable | values | default | meaning | in `env` | around `ftest run` | around `fgpu`, `ftest exec` |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for variable in protocol::env::ALL {
        let cell = |text: &str| text.replace('|', "\\|");
        writeln!(
            page,
            "| `{}` | {} | {} | {} | {} |",
            variable.name,
            cell(variable.values),
            cell(variable.default),
            cell(variable.meaning),
            cell(&variable.scope.describe().join(" | ")).replace(" \\| ", " | "),
        )
        .expect("writing to a string");
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/environment.md");
    if env::var_os("FTEST_REGEN").is_some() {
        fs::write(&path, &page).expect("docs/ is writable");
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == page,
        "docs/environment.md is not the table of protocol/src/env.rs; run `cargo xtask regen environment`"
    );
}

/// docs/fakegpu.md says of each of FakeGPU's variables whether it is read.
#[test]
fn the_page_for_users_of_fakegpu_knows_the_variables() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/fakegpu.md");
    let page = fs::read_to_string(&path).unwrap();
    let words = |text: &str| -> Vec<String> {
        let words = text.split('`').filter(|word| word.starts_with("FAKEGPU_"));
        words.map(|word| word.split('=').next().unwrap_or_default().to_owned()).collect()
    };
    let known: Vec<&str> = protocol::env::ALL.iter().map(|variable| variable.name).collect();
    let mut rows = 0;
    for row in page.lines().filter(|line| line.starts_with("| `FAKEGPU_")) {
        let (left, right) = row[2..].split_once(" | ").unwrap_or_else(|| panic!("a row of two columns: {row}"));
        for name in words(left) {
            assert_eq!(known.contains(&name.as_str()), !right.starts_with("not read"), "{}: {row}", path.display());
            rows += 1;
        }
    }
    assert!(rows > 40, "{rows} variables: is the table still there?");
    let named = words(&page);
    for name in known.iter().filter(|name| name.starts_with("FAKEGPU_")) {
        assert!(named.iter().any(|word| word == name), "{} does not name {name}", path.display());
    }
}
