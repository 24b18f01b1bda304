//! Suites, filters, expressions and paths that no person would write: each is reported as a mistake with a place, or
//! accepted; none crashes ftest.

use super::command::PATIENCE;
use super::tally::Tally;
use super::workspace::Workspace;

/// What is tried, how it is generated at a given size, and what the error must say; empty if it may be accepted.
type Text = (&'static str, fn(usize) -> String, &'static str);

/// A suite of one case with this line.
fn case(line: &str) -> String {
    format!("ftest: 1\nsuite: hostile\ncases:\n  - id: a\n    launch: {{ argv: ['true'] }}\n    {line}\n")
}

fn invariant(expression: &str) -> String {
    case(&format!("expect: {{ invariants: [{{ that: '{expression}' }}] }}"))
}

fn path(path: &str) -> String {
    case(&format!("expect: {{ report: [{{ path: \"{path}\", ge: 0 }}] }}"))
}

const INSIDE: &str = "nested";

const SUITES: &[Text] = &[
    ("an expression of terms", |n| invariant(&format!("{}1", "1 + ".repeat(n))), INSIDE),
    ("an expression of negations", |n| invariant(&format!("{}1", "not ".repeat(n))), INSIDE),
    ("an expression of brackets", |n| invariant(&format!("{}1{}", "(".repeat(n), ")".repeat(n))), INSIDE),
    ("an expression of attributes", |n| invariant(&format!("report{}", ".a".repeat(n))), INSIDE),
    ("a path of brackets", |n| path(&format!("${}", "[".repeat(n))), ""),
    ("a path of filters", |n| path(&format!("${}{}", "[?@".repeat(n), "]".repeat(n))), ""),
    ("a path of parentheses", |n| path(&format!("$[?{}@.a{}]", "(".repeat(n), ")".repeat(n))), ""),
    ("lists in lists", |n| format!("ftest: 1\nx: {}{}\n", "[".repeat(n), "]".repeat(n)), "deep"),
    ("dashes", |n| "- ".repeat(n), "deep"),
    ("aliases", |n| format!("a: &a 1\nb: [{}]\n", "*a, ".repeat(n)), ""),
    ("laughs", laughs, ""),
    ("axes of a matrix", |n| case(&format!("matrix: {{ axes: {{ {} }} }}", axes(n.min(2_000)))), ""),
    ("a long word", |n| case(&format!("title: {}", "x".repeat(n * 100))), ""),
    (
        "a regular expression",
        |n| case(&format!("expect: {{ stdout: {{ matches: '{}' }} }}", "(a{9}){9}".repeat(n))),
        "",
    ),
    ("a counted regular expression", |n| case(&format!("expect: {{ stdout: {{ matches: 'a{{{n}}}{{{n}}}' }} }}")), ""),
    ("ranks", |n| case(&format!("cluster: {{ nodes: {n}, gpus_per_node: {n}, profile: a100 }}")), ""),
    ("bytes that are not text", |n| "\u{1b}[2J\u{0}\u{fffe}".repeat(n), ""),
];

const FILTERS: &[Text] = &[
    ("a filter of parentheses", |n| "(".repeat(n), INSIDE),
    ("a filter of negations", |n| "!".repeat(n), INSIDE),
    ("a filter of alternatives", |n| format!("a{}", "|a".repeat(n)), ""),
    ("a filter of conjunctions", |n| format!("a{}", "&a".repeat(n)), ""),
    ("a filter of stars", |n| format!("case({})", "*a".repeat(n)), ""),
    // An argument has at most 128 KiB.
    ("a filter with a regular expression", |n| format!("case(/{}/)", "(a{9}){9}".repeat(n.min(14_000))), ""),
];

/// The sizes at which each is generated.
const SIZES: [usize; 5] = [10, 50, 1_000, 5_000, 20_000];

fn laughs(n: usize) -> String {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..n.min(60) {
        text += &format!("a{level}: &a{level} [{}]\n", vec![format!("*a{}", level - 1); 10].join(", "));
    }
    text
}

fn axes(n: usize) -> String {
    (0..n).map(|axis| format!("a{axis}: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]")).collect::<Vec<_>>().join(", ")
}

/// The largest size must be refused with the given message; every size must end in time, within 2 GiB of address space.
pub(super) fn hostile(workspace: &Workspace) -> Result<Tally, String> {
    let mut tally = Tally::new("texts");
    workspace.write("fine.yaml", case("title: nothing special"))?;
    let sizes = if workspace.quick() { &SIZES[3..4] } else { &SIZES[..] };
    for &size in sizes {
        for (what, make, says) in SUITES {
            workspace.write("hostile.yaml", make(size))?;
            let ended = limited(workspace, "check hostile.yaml")?;
            judge(&mut tally, what, size, says, ended);
        }
        for (what, make, says) in FILTERS {
            workspace.write("filter", make(size))?;
            let ended = limited(workspace, "run fine.yaml --list --no-tests=pass -E \"$(cat filter)\"")?;
            judge(&mut tally, what, size, says, ended);
        }
    }
    Ok(tally)
}

fn limited(workspace: &Workspace, words: &str) -> Result<super::command::Ended, String> {
    // Shell words are limited to 128 KiB each; a longer filter never reaches ftest.
    workspace.run(&mut workspace.ftest_after(&format!("ulimit -v 2097152; set -- {words}"), &[]), PATIENCE)
}

fn judge(tally: &mut Tally, what: &str, size: usize, says: &str, ended: super::command::Ended) {
    let outcome = ended.expect(&[0, 2]).and_then(|()| {
        let large = size >= 1_000 && !says.is_empty();
        if large && (ended.code() != 2 || !ended.err.contains(says)) {
            return Err(format!("ended with {} and does not say `{says}`: {}", ended.code(), ended.text()));
        }
        if ended.code() == 2 && ended.err.trim().is_empty() {
            return Err("refused without a word".to_owned());
        }
        Ok(())
    });
    tally.add(&format!("{what}, {size}"), ended.took, outcome);
}
