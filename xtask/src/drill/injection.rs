//! Programs whose output would affect whatever reads a report of it: terminals, browsers, XML parsers, Markdown, CI
//! servers.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::command::PATIENCE;
use super::tally::Tally;
use super::workspace::Workspace;

/// The secret that the runs know, and the word that marks all other payloads.
const SECRET: &str = "hunter2hunter2hunter2";

/// What programs print.
const PAYLOADS: &[(&str, &str)] = &[
    ("clear screen", "\u{1b}[2J\u{1b}[Hevil"),
    ("cursor report", "\u{1b}[6nevil"),
    ("title and clipboard", "\u{1b}]0;evil\u{7}\u{1b}]52;c;ZXZpbA==\u{1b}\\"),
    ("a hyperlink", "\u{1b}]8;;http://evil\u{1b}\\evil\u{1b}]8;;\u{1b}\\"),
    ("C1 sequences", "\u{9b}2Jevil\u{9d}0;evil\u{9c}"),
    ("a return", "evil\rgood"),
    ("backspaces", "evil\u{8}\u{8}\u{8}\u{8}good"),
    ("NUL and DEL", "evil\u{0}\u{7f}"),
    ("the end of CDATA", "]]><evil/><![CDATA["),
    ("an entity", "&#x1b;&evil;<!DOCTYPE evil [<!ENTITY e SYSTEM 'file:///etc/passwd'>]>"),
    ("a failure of its own", "</system-out></testcase><testcase name='evil'><evil/>"),
    ("a script", "</script><script>evil()</script>"),
    ("an image that runs", "<img src=x onerror=evil()>"),
    ("the end of an attribute", "\"' onmouseover='evil()' x=\""),
    ("the end of a fence", "\n```\n![evil](http://evil)\n<evil>\n"),
    ("many fences", "\n````````````\n![evil](http://evil)\n~~~\n<evil>\n"),
    ("the end of details", "</details></summary>\n\n# evil\n"),
    ("a table", "| evil | [evil](http://evil) |"),
    ("a command of GitHub", "::error file=evil::evil\n##[error]evil\n::set-output name=evil::evil"),
    ("an unstopped command", "::stop-commands::evil\n::evil::\n::error::evil"),
    ("a template", "${{ evil }} {{ evil }} {% evil %}"),
    ("text that runs backwards", "\u{202e}live\u{202c}\u{2066}evil\u{2069}"),
    ("the secret", SECRET),
    ("the secret in a line", "token=hunter2hunter2hunter2;"),
    ("half of the secret, then it", "hunter2hunter2hunter2hunter2"),
];

/// A report that people or programs read: its file, and what must not be in it.
const REPORTS: [(&str, &[&str]); 7] = [
    ("out.txt", &[]),
    ("err.txt", &[]),
    ("out.xml", &["<evil", "<!ENTITY", "name='evil'", "name=\"evil\"", "\0"]),
    ("strict.xml", &["<evil", "<!ENTITY", "name='evil'", "name=\"evil\"", "\0"]),
    ("out.html", &["<evil", "<script>evil", "<img src=x", "' onmouseover='"]),
    ("out.md", &[]),
    ("trace.json", &["</script>"]),
];

/// Payloads reach each report as the tail of a stream, as an excerpt beside a failed check, and as a line of a rank.
fn suite() -> String {
    let mut text = "ftest: 1\nsuite: injection\ncases:\n".to_owned();
    for number in 0..PAYLOADS.len() {
        let ways = [
            ("tail", "launch: { argv: [sh, -c, 'cat PAYLOAD; cat PAYLOAD >&2; exit 3'] }".to_owned()),
            (
                "excerpt",
                "launch: { argv: [cat, PAYLOAD] }\n    expect: { stdout: [never, { matches: never$ }], stderr: never }"
                    .to_owned(),
            ),
            ("ranks", "launch: { argv: [sh, -c, 'cat PAYLOAD >&2; exit $RANK'], ranks: 2 }".to_owned()),
        ];
        for (name, rest) in ways {
            let rest = rest.replace("PAYLOAD", &format!("payload.{number}"));
            text += &format!("  - id: {name}-{number}\n    env: {{ API_TOKEN: {SECRET} }}\n    {rest}\n");
        }
    }
    text
}

pub(super) fn all_reports(workspace: &Workspace) -> Result<Tally, String> {
    for (number, (_, payload)) in PAYLOADS.iter().enumerate() {
        workspace.write(&format!("payload.{number}"), payload)?;
    }
    workspace.write("injection.yaml", suite())?;
    let mut tally = Tally::new("payloads in reports");
    for (round, extra) in [&[][..], &["--github"], &["--no-capture"], &["--color", "always"]].iter().enumerate() {
        let _ = fs::remove_dir_all(workspace.path("runs"));
        let files = ["--junit", "out.xml", "--html", "out.html", "--markdown", "out.md", "--trace", "trace.json"];
        let words = [&["run", "injection.yaml", "--no-fail-fast", "--runs-dir", "runs"], &files[..], extra].concat();
        let ended = workspace.run(workspace.ftest(&words).env("API_TOKEN", SECRET), PATIENCE)?;
        if let Err(why) = ended.expect(&[1]) {
            tally.fault(why);
        }
        // `--no-capture` has no effect on a replay.
        let again = if extra.contains(&"--no-capture") { &[][..] } else { *extra };
        let replay = ["replay", "--runs-dir", "runs", "--junit", "strict.xml", "--junit-profile", "strict"];
        let replay = [&replay[..], again].concat();
        let replayed = workspace.run(&mut workspace.ftest(&replay), PATIENCE)?;
        if let Err(why) = replayed.expect(&[1]) {
            tally.fault(why);
        }
        workspace.write("out.txt", ended.out + &replayed.out)?;
        workspace.write("err.txt", ended.err + &replayed.err)?;
        for (report, forbidden) in REPORTS {
            let text = fs::read(workspace.path(report)).map_err(|error| format!("{report}: {error}"))?;
            let text = String::from_utf8_lossy(&text);
            let live = if extra.contains(&"--github") && report == "out.txt" { executed(&text) } else { None };
            let outcome =
                judge(report, &text, forbidden, passing(report, extra)).and_then(|()| live.map_or(Ok(()), Err));
            tally.add(&format!("{report}, {}", extra.join(" ")), Duration::ZERO, outcome);
            tally.many(PAYLOADS.len() as u64 * 3 - 1);
        }
        if workspace.quick() && round == 1 {
            break;
        }
    }
    let with_secret = holding(&workspace.path("runs"), SECRET);
    if !with_secret.is_empty() {
        tally.fault(format!("the secret is in {with_secret:?}"));
    }
    Ok(tally)
}

/// What a report may contain besides text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passing {
    Nothing,
    Colors,
    /// Colors and overwritten lines, because somebody watches the program.
    Watched,
}

fn passing(report: &str, extra: &[&str]) -> Passing {
    if extra.contains(&"--no-capture") && matches!(report, "out.txt" | "err.txt") {
        Passing::Watched
    } else if extra.contains(&"--color") {
        Passing::Colors
    } else {
        Passing::Nothing
    }
}

fn judge(report: &str, text: &str, forbidden: &[&str], passing: Passing) -> Result<(), String> {
    if text.trim().is_empty() && report != "err.txt" {
        return Err("it is empty".to_owned());
    }
    let words = [forbidden, &[SECRET]].concat();
    if let Some(word) = words.into_iter().find(|word| text.contains(word)) {
        let at = text.find(word).unwrap_or_default();
        return Err(format!("has {word:?}: {:?}", text[at..].chars().take(80).collect::<String>()));
    }
    let acts = |letter: char| {
        let is_fine = matches!(letter, '\n' | '\t') || letter == '\r' && passing == Passing::Watched;
        letter.is_control() && !is_fine
    };
    let bare = if passing == Passing::Nothing { text.to_owned() } else { without_colors(text) };
    if let Some(line) = bare.lines().find(|line| line.chars().any(acts)) {
        return Err(format!("has a character that acts: {line:?}"));
    }
    if report == "out.md"
        && let Some(line) = outside_of_fences(text).find(|line| line.contains("![evil]") || line.contains("<evil"))
    {
        return Err(format!("has Markdown of the program: {line}"));
    }
    Ok(())
}

/// Removes color sequences.
fn without_colors(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut bare = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == ';');
        match rest.strip_prefix('m') {
            Some(rest) => bare += rest,
            None => bare.extend(["\u{1b}[", part]),
        }
    }
    bare
}

/// The lines of a Markdown text that are not in a code block.
fn outside_of_fences(text: &str) -> impl Iterator<Item = &str> {
    let mut open: Option<usize> = None;
    text.lines().filter(move |line| {
        let line = line.trim_start();
        let ticks = line.len() - line.trim_start_matches('`').len();
        match open {
            Some(length) if ticks >= length && line.trim_matches('`').trim().is_empty() => open = None,
            Some(_) => return false,
            None if ticks >= 3 => open = Some(ticks),
            None => return true,
        }
        false
    })
}

/// A line that GitHub would execute and that the program wrote.
fn executed(log: &str) -> Option<String> {
    let mut stopped: Option<&str> = None;
    for line in log.lines().map(str::trim_start) {
        match (stopped, line.strip_prefix("::stop-commands::")) {
            (Some(word), _) if line.strip_prefix("::").and_then(|line| line.strip_suffix("::")) == Some(word) => {
                stopped = None
            }
            (Some(_), _) => {}
            (None, Some(word)) => stopped = Some(word),
            (None, None)
                if line.contains("evil") && (line.starts_with("::error file=evil") || line.contains("##[")) =>
            {
                return Some(format!("GitHub would execute {line:?}"));
            }
            (None, None) => {}
        }
    }
    None
}

/// The files below a directory that contain a text.
fn holding(directory: &Path, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(holding(&path, text));
        } else if String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).contains(text) {
            found.push(path);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_is_found() {
        let found = |report, text| judge(report, text, &["<evil"], Passing::Nothing).unwrap_err();
        assert!(found("out.xml", "a <evil/>").contains("<evil"));
        assert!(found("out.txt", "a \u{1b}[2J").contains("acts"));
        assert!(found("out.txt", "a \u{9b}2J").contains("acts"));
        assert!(found("out.txt", SECRET).contains("hunter2"));
        assert!(found("out.txt", "").contains("empty"));
        assert!(judge("out.txt", "\u{1b}[1;31mred\u{1b}[0m", &[], Passing::Colors).is_ok());
        assert!(judge("out.txt", "\u{1b}[1;31mred\u{1b}[2J", &[], Passing::Colors).is_err());
        assert!(judge("out.txt", "1%\r99%", &[], Passing::Watched).is_ok());
        assert!(judge("out.txt", "1%\r99%", &[], Passing::Colors).is_err());
        assert_eq!(passing("out.txt", &["--no-capture"]), Passing::Watched);
        assert_eq!(passing("out.html", &["--no-capture"]), Passing::Nothing);
        assert!(judge("out.md", "```\n![evil](x)\n```\n", &[], Passing::Nothing).is_ok());
        assert!(judge("out.md", "```\nx\n```\n![evil](x)\n", &[], Passing::Nothing).is_err());
        assert!(judge("out.md", "```\n`````\n![evil](x)\n", &[], Passing::Nothing).is_err());
        assert!(executed("::stop-commands::a\n##[error]evil\n::a::\n").is_none());
        assert!(executed("::stop-commands::a\n::a::\n##[error]evil\n").is_some());
    }
}
