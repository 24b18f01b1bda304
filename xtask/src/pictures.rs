//! `cargo xtask pictures`: runs the suite of the README and draws what it printed, and the page that it wrote.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The suite that is shown; its last case fails on purpose.
const SUITE: &str = "docs/example/training.yaml";
/// Columns of the terminal.
const COLUMNS: usize = 132;
/// A line that needs more rows than this is cut.
const ROWS_OF_A_LINE: usize = 3;
/// Size of a character, px.
const CELL: (f64, usize) = (7.25, 17);

/// Runs the suite, then writes docs/terminal.svg, and docs/report.png where there is a Chromium. The variable `FTEST` names
/// another ftest than `./ftest`.
///
/// # Errors
/// ftest cannot be started or ends otherwise than with a failed case, or a picture cannot be written.
pub fn run(root: &Path) -> Result<(), String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let page = directory.path().join("report.html");
    let program = std::env::var_os("FTEST").map_or_else(|| root.join("ftest"), PathBuf::from);
    let output = Command::new(&program)
        .args([SUITE, "--no-fail-fast", "--color", "always", "--html"])
        .arg(&page)
        .arg("--runs-dir")
        .arg(directory.path().join("runs"))
        .current_dir(root)
        .output()
        .map_err(|error| format!("./ftest: {error}"))?;
    // The suite has one case that fails.
    if output.status.code() != Some(1) {
        return Err(format!("./ftest {SUITE}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)));
    }
    // Pictures show what a reader's terminal would, not where this run was.
    let scratch = directory.path().display().to_string();
    let places = [
        (format!(" --color always --html {scratch}/report.html --runs-dir {scratch}/runs"), " --html report.html"),
        (scratch, ".ftest"),
        (program.display().to_string(), "./ftest"),
        (root.canonicalize().unwrap_or_default().display().to_string(), "~/ftest"),
    ];
    let plain = |text: &str| places.iter().fold(text.to_owned(), |text, (place, shown)| text.replace(place, shown));
    let printed = plain(&String::from_utf8_lossy(&output.stdout));
    let printed = format!("\x1b[1m$ ./ftest {SUITE}\x1b[0m\n{printed}");
    write(&root.join("docs/terminal.svg"), &svg(&printed))?;
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
    let done = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1000,2460"])
        .arg(format!("--screenshot={}", picture.display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .map_err(|error| format!("{}: {error}", browser.display()))?;
    if done.status.success() {
        Ok(())
    } else {
        Err(format!("{}: {}\n{}", browser.display(), done.status, String::from_utf8_lossy(&done.stderr)))
    }
}

/// A piece of a line in one style: the CSS class, and the text.
type Piece = (&'static str, String);

/// Lines as a terminal wraps them, each in pieces of one style.
fn rows(text: &str) -> Vec<Vec<Piece>> {
    let mut rows = Vec::new();
    for line in text.lines() {
        let (mut row, mut column, mut of_line, mut class) = (Vec::<Piece>::new(), 0, 1, "");
        let mut letters = line.chars();
        while let Some(letter) = letters.next() {
            if letter == '\x1b' {
                let code: String = letters.by_ref().skip(1).take_while(|&letter| letter != 'm').collect();
                class = style(&code);
                continue;
            }
            if column == COLUMNS {
                if of_line == ROWS_OF_A_LINE {
                    row.push(("dim", "…".to_owned()));
                    break;
                }
                rows.push(std::mem::take(&mut row));
                (column, of_line) = (0, of_line + 1);
            }
            match row.last_mut() {
                Some((last, text)) if *last == class => text.push(letter),
                _ => row.push((class, letter.to_string())),
            }
            column += 1;
        }
        rows.push(row);
    }
    rows
}

/// The class of an SGR code that ftest prints.
fn style(code: &str) -> &'static str {
    match code {
        "1" => "bold",
        "2" => "dim",
        "31" => "red",
        "32" => "green",
        "33" => "yellow",
        "35" => "magenta",
        "36" => "cyan",
        _ => "",
    }
}

fn svg(text: &str) -> String {
    let rows = rows(text);
    let (wide, tall) = CELL;
    let width = (COLUMNS + 2) as f64 * wide;
    let height = (rows.len() + 2) * tall;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">\n\
         <title>{SUITE} in a terminal</title>\n\
         <style>text {{ font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #d4d4d4; white-space: pre }}\n\
         .bold {{ font-weight: bold; fill: #ffffff }} .dim {{ fill: #8b949e }} .red {{ fill: #ff7b72 }} .green {{ fill: #56d364 }}\n\
         .yellow {{ fill: #e3b341 }} .magenta {{ fill: #d2a8ff }} .cyan {{ fill: #79c0ff }}</style>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#161b22\"/>\n"
    );
    for (number, row) in rows.iter().enumerate() {
        let mut column = 0;
        for (class, text) in row {
            let letters = text.chars().count();
            // The length is stated, so columns stay aligned whatever font there is.
            if !text.trim().is_empty() {
                let _ = writeln!(
                    svg,
                    "<text x=\"{:.2}\" y=\"{}\" textLength=\"{:.2}\" class=\"{class}\" xml:space=\"preserve\">{}</text>",
                    (column + 1) as f64 * wide,
                    (number + 2) * tall - 4,
                    letters as f64 * wide,
                    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
                );
            }
            column += letters;
        }
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_start_and_end_where_their_codes_are() {
        let rows = rows("\x1b[32m passed\x1b[0m suite\nnext");
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0], [("green", " passed".to_owned()), ("", " suite".to_owned())]);
    }

    #[test]
    fn long_lines_wrap_and_very_long_ones_are_cut() {
        let wrapped = rows(&"x".repeat(COLUMNS + 1));
        assert_eq!(wrapped.iter().map(|row| row[0].1.len()).collect::<Vec<_>>(), [COLUMNS, 1]);
        let cut = rows(&"x".repeat(COLUMNS * 9));
        assert_eq!(cut.len(), ROWS_OF_A_LINE);
        assert_eq!(cut.last().unwrap().last().unwrap().1, "…");
    }

    #[test]
    fn text_is_escaped() {
        assert!(svg("a < b & c").contains("a &lt; b &amp; c"));
    }
}
