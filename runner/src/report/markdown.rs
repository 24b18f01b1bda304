//! A run as Markdown for GitHub and GitLab: the counts, the cases that did not pass, and the changes.

use std::fmt::Write as _;

use crate::host::printable;
use crate::record::{CaseRun, Run};
use crate::report::html::compare::Comparison;
use crate::report::{html, human, words};
use crate::verdict::Verdict;

/// Maximum bytes of the text of one case.
const CASE_LIMIT: usize = 32 << 10;
/// Bytes reserved for the sentence about what is missing.
const RESERVE: usize = 400;

/// The summary, limited to `limit` bytes (but at least its first lines). `before` is an earlier run.
pub fn render(run: &Run, before: Option<&Run>, limit: usize) -> String {
    let mut text = format!("## ftest: {}\n\n", cell(&html::headline(run)));
    let counts = run.counts();
    let words: Vec<&str> = html::WORDS.into_iter().filter(|word| counts.contains_key(word)).collect();
    let _ = writeln!(text, "| {} |\n|{}", words.join(" | "), " --: |".repeat(words.len()));
    let numbers: Vec<String> = words.iter().map(|word| counts[word].to_string()).collect();
    let _ = writeln!(text, "| {} |\n", numbers.join(" | "));
    if let Some(ended) = html::ended(run) {
        let _ = writeln!(text, "**{ended}**\n");
    }
    let took =
        run.end.as_ref().map(|end| format!(", took {}", words::time(end.duration_us as f64))).unwrap_or_default();
    let shard = run.info.shard.as_ref().map(|shard| format!(", shard {}", cell(shard))).unwrap_or_default();
    let _ = writeln!(text, "Run {} of {} UTC{took}{shard}.\n", code(&run.info.run), words::date(run.info.at_ms));

    let mut out = Cut { text, limit: limit.saturating_sub(RESERVE) };
    let comparison = before.and_then(|before| Comparison::new(before, run));
    if let Some(comparison) = &comparison {
        out.add(&changes(comparison));
    }
    let bad: Vec<&CaseRun> = run.cases.iter().filter(|case| html::is_bad(case)).collect();
    for (fixture, failure) in &run.teardowns {
        out.add(&format!("**{} could not be torn down**: {}\n\n", code(fixture), cell(&failure.got)));
    }
    if !bad.is_empty() {
        out.add("### Did not pass\n\n");
    }
    let shown = bad.iter().take_while(|case| out.add(&details(case))).count();
    if shown < bad.len() {
        let _ = writeln!(
            out.text,
            "{} more did not pass and are left out here: the summary may have {} at most. The JUnit file, the HTML page and the run's directory have them all.\n",
            bad.len() - shown,
            words::bytes(limit as u64)
        );
        return out.text;
    }
    let flaky: Vec<&CaseRun> = run.cases.iter().filter(|case| case.flaky()).collect();
    if !flaky.is_empty() {
        let lines =
            flaky.iter().map(|case| format!("- {}: attempt {} passed\n", code(&case.info.case), case.attempts.len()));
        out.add(&format!("### Flaky\n\n{}\n", lines.collect::<String>()));
    }
    let skips = html::skips(run);
    if !skips.is_empty() {
        let lines: String = skips.iter().map(|(reason, count)| format!("- {count}: {}\n", cell(reason))).collect();
        out.add(&format!("### Skipped\n\n{lines}\n"));
    }
    out.text
}

/// Text that does not exceed its limit.
struct Cut {
    text: String,
    limit: usize,
}

impl Cut {
    /// Adds `part` if it fits.
    fn add(&mut self, part: &str) -> bool {
        let fits = self.text.len() + part.len() <= self.limit;
        if fits {
            self.text.push_str(part);
        }
        fits
    }
}

fn details(case: &CaseRun) -> String {
    let verdict = case.verdict().map_or("", Verdict::word);
    let text = human::details(case);
    let text = match text.len() {
        length if length <= CASE_LIMIT => text,
        _ => format!("{}\n[...]", &text[..text.floor_char_boundary(CASE_LIMIT)]),
    };
    let fence = fence(&text);
    format!(
        "<details><summary>{verdict} <code>{}</code> ({})</summary>\n\n{fence}text\n{}\n{fence}\n\n</details>\n\n",
        html_text(&case.info.case),
        words::time(case.duration_us() as f64),
        text.trim_end()
    )
}

fn changes(comparison: &Comparison) -> String {
    let mut text = String::new();
    let (then, now) = &comparison.times;
    let _ = writeln!(
        text,
        "Since run {}: {} in both, {then} then, {now} now.\n",
        code(&comparison.run),
        words::counted(comparison.common, "case")
    );
    if !comparison.changed.is_empty() {
        text.push_str("| case | then | now |\n| --- | --- | --- |\n");
        for changed in &comparison.changed {
            let _ = writeln!(text, "| {} | {} | {} |", code(&changed.case), changed.was, changed.is);
        }
        if comparison.more_changed > 0 {
            let _ = writeln!(text, "\n{} more changed their verdict.", comparison.more_changed);
        }
        text.push('\n');
    }
    if !comparison.slower.is_empty() {
        text.push_str("| case | then | now | |\n| --- | --: | --: | --: |\n");
        for retimed in &comparison.slower {
            let (then, now) = &retimed.times;
            let _ = writeln!(text, "| {} | {then} | {now} | {} |", code(&retimed.case), retimed.difference);
        }
        text.push('\n');
    }
    for step in &comparison.steps {
        let _ = writeln!(text, "- {} {}", code(&step.case), html_text(&step.sentence));
    }
    text
}

/// A fence longer than any run of backticks in `text`, so that nothing in it ends the block.
fn fence(text: &str) -> String {
    let longest = text.split(|character| character != '`').map(str::len).max().unwrap_or_default();
    "`".repeat((longest + 1).max(3))
}

/// A word as code, also in a table.
fn code(text: &str) -> String {
    format!("<code>{}</code>", cell(text))
}

/// Text on one line with all markup escaped.
fn cell(text: &str) -> String {
    let mut out = String::new();
    for character in printable::visible(text).chars() {
        match character {
            '\n' => out.push(' '),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '!' | '~' | '@' | ':' => {
                let _ = write!(out, "&#{};", character as u32);
            }
            other => out.push_str(&html_text(&other.to_string())),
        }
    }
    out
}

fn html_text(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Failure, FailureKind};
    use crate::record::event::Event;
    use crate::report::html::tests::{finished, run};

    #[test]
    fn nothing_in_a_case_is_markup() {
        let [mut attempt, end] = finished("s/a|b", Verdict::Failed, 5);
        if let Event::AttemptFinished { attempt, .. } = &mut attempt {
            let got = "```\n</details><script>alert(1)</script>\n````".to_owned();
            attempt.failures.push(Failure { kind: FailureKind::Stdout, got, ..Failure::default() });
        }
        let text = render(&run(&[[attempt, end]]), None, 1 << 20);
        assert!(text.contains("\n`````text\n") && text.contains("\n`````\n\n</details>"), "{text}");
        assert_eq!(cell("a|b <i> `x` @me"), "a&#124;b &lt;i&gt; &#96;x&#96; &#64;me");
    }

    #[test]
    fn a_long_summary_says_what_it_leaves_out() {
        let events: Vec<_> = (0..2000).map(|index| finished(&format!("s/f{index}"), Verdict::Failed, 5)).collect();
        for limit in [3_000, 60_000] {
            let text = render(&run(&events), None, limit);
            assert!(text.len() <= limit, "{}", text.len());
            let shown = text.matches("<details>").count();
            assert!(
                shown > 3 && text.contains(&format!("{} more did not pass and are left out here", 2000 - shown)),
                "{text}"
            );
            assert_eq!(shown, text.matches("</details>").count());
        }
    }

    #[test]
    fn changes_and_skips_are_listed() {
        let before = run(&[finished("s/a", Verdict::Passed, 5)]);
        let skipped = Verdict::Skipped { reason: "no gcc".into() };
        let now = run(&[finished("s/a", Verdict::Failed, 5), finished("s/b", skipped, 0)]);
        let text = render(&now, Some(&before), 1 << 20);
        assert!(text.contains("| <code>s/a</code> | passed | failed |") && text.contains("- 1: no gcc"), "{text}");
        assert!(
            text.starts_with("## ftest: 1 of 2 cases did not pass\n\n| failed | skipped |\n| --: | --: |\n| 1 | 1 |\n"),
            "{text}"
        );
    }
}
