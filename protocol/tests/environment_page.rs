//! Keeps docs/environment.md equal to the table in `protocol::env`. `cargo xtask regen environment` rewrites it.

use std::fmt::Write as _;
use std::{env, fs, path::Path};

#[test]
fn the_page_is_the_table() {
    let mut page = String::from(
        "# Environment variables\n\n\
         Made from `protocol/src/env.rs`; `cargo xtask regen` rewrites it. A value that is not listed is an error\n\
         that names the variable. `ftest` and `fgpu` set what their flags say; a flag wins over the variable. An empty variable counts\n\
         as one that is not set, these and those of others (`TMPDIR`, `PATH`, `HOME`, `CI`, ...); a relative path starts in the working directory.\n\n\
         | variable | values | default | meaning |\n|---|---|---|---|\n",
    );
    for variable in protocol::env::ALL {
        let cell = |text: &str| text.replace('|', "\\|");
        writeln!(
            page,
            "| `{}` | {} | {} | {} |",
            variable.name,
            cell(variable.values),
            cell(variable.default),
            cell(variable.meaning)
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
