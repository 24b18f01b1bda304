//! `cargo xtask pictures`: runs the suite of the README and draws its output and its HTML page.

mod terminal;

use std::fs;
use std::path::{Path, PathBuf};

use duct::cmd;

/// The suite that is shown; its last case fails on purpose.
const SUITE: &str = "docs/example/training.yaml";

/// Runs the suite, then writes docs/terminal.svg and, if there is a Chromium, docs/report.png. The variable `FTEST` names
/// another ftest than `./ftest`.
///
/// # Errors
/// ftest cannot be started or does not end with a failed case, or a picture cannot be written.
pub fn run(root: &Path) -> Result<(), String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let page = directory.path().join("report.html");
    let program = std::env::var_os("FTEST").map_or_else(|| root.join("ftest"), PathBuf::from);
    let runs = directory.path().join("runs");
    let command = cmd!(&program, SUITE, "--no-fail-fast", "--color", "always", "--html", &page, "--runs-dir", runs);
    let output = command.dir(root).stdout_capture().stderr_capture().unchecked().run();
    let output = output.map_err(|error| format!("./ftest: {error}"))?;
    // The suite has one case that fails.
    if output.status.code() != Some(1) {
        return Err(format!("./ftest {SUITE}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)));
    }
    // Pictures show what a reader's terminal would show, not where this run was.
    let scratch = directory.path().display().to_string();
    let checkout = root.canonicalize().unwrap_or_default().display().to_string();
    let home = std::env::var("HOME").ok().filter(|home| home.len() > 1).unwrap_or_else(|| checkout.clone());
    let places = [
        (format!(" --color always --html {scratch}/report.html --runs-dir {scratch}/runs"), " --html report.html"),
        (scratch, ".ftest"),
        (program.display().to_string(), "./ftest"),
        (format!("{checkout}/target/release/ftest"), "./ftest"),
        (format!("{checkout}/target/debug/ftest"), "./ftest"),
        (checkout, "~/ftest"),
        (home, "~"),
    ];
    let plain = |text: &str| places.iter().fold(text.to_owned(), |text, (place, shown)| text.replace(place, shown));
    let printed = plain(&String::from_utf8_lossy(&output.stdout));
    let printed = format!("\x1b[1m$ ./ftest {SUITE}\x1b[0m\n{printed}");
    write(&root.join("docs/terminal.svg"), &terminal::svg(SUITE, &printed))?;
    match browser() {
        Some(browser) => {
            let report = fs::read_to_string(&page).map_err(|error| error.to_string())?;
            fs::write(&page, plain(&report)).map_err(|error| error.to_string())?;
            photograph(&browser, &page, &root.join("docs/report.png"))
        }
        None => {
            println!("there is no Chromium; docs/report.png stays as it was (CHROMIUM names one)");
            Ok(())
        }
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    println!("{}", path.display());
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Chromium, as `.ci/screenshots` looks for it.
fn browser() -> Option<PathBuf> {
    let named = std::env::var("CHROMIUM").ok();
    let names = named.iter().map(String::as_str).chain(["chromium", "chromium-browser", "google-chrome"]);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
    names
        .filter(|name| !name.is_empty())
        .flat_map(|name| directories.iter().map(move |directory| directory.join(name)))
        .find(|program| program.is_file())
}

fn photograph(browser: &Path, page: &Path, picture: &Path) -> Result<(), String> {
    println!("{}", picture.display());
    let (picture, page) = (format!("--screenshot={}", picture.display()), format!("file://{}", page.display()));
    let size = "--window-size=1000,2460";
    let command =
        cmd!(browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", size, picture, page);
    let done = command.stderr_to_stdout().stdout_capture().unchecked().run();
    let done = done.map_err(|error| format!("{}: {error}", browser.display()))?;
    if done.status.success() {
        Ok(())
    } else {
        Err(format!("{}: {}\n{}", browser.display(), done.status, String::from_utf8_lossy(&done.stdout)))
    }
}
