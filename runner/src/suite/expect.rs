//! `expect`: the expected results of a case.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::node::{Entry, Node, Value};
use protocol::finding;

use crate::check::exit::{ExitExpectation, ExitWant, Placed};
use crate::check::finding::FindingExpectation;
use crate::check::gap::GapExpectation;
use crate::check::hang::HangExpectation;
use crate::check::invariant::{self, Invariant};
use crate::check::output::{OutputCheck, OutputWant, Stream, Whose};
use crate::check::report::ReportKind;
use crate::check::snapshot::SnapshotCheck;
use crate::check::snapshot_file;
use crate::check::snapshot_file::Selection;
use crate::check::{Expectations, Leaks};
use crate::expression;
use crate::source::SourceLocation;
use crate::suite::fields::Report;
use crate::suite::kill::read_signal;
use crate::suite::language::expect as language;
use crate::suite::output_line::regex;
use crate::suite::rank::{read_rank, read_ranks};
use crate::suite::reader::{Mapping, Reader, did_you_mean};
use crate::suite::report::{Captured, read_kind, read_path};
use crate::suite::{Shared, Span, perf, report, slug};

/// The expectations of the case at `place`; without an `expect`, every process must exit with 0.
pub(super) fn read(
    shared: &Shared<'_>,
    node: Option<&Node>,
    place: &SourceLocation,
    case_id: &str,
    world: Option<u32>,
    context: Arc<serde_json::Value>,
) -> Expectations {
    let reader = shared.reader;
    let mut expect =
        Expectations { exit: ExitExpectation { place: place.clone(), ..Default::default() }, ..Default::default() };
    let Some(mapping) = node.and_then(|node| reader.section(&language::EXPECT, node)) else { return expect };
    if let Some(node) = mapping.get("exit") {
        read_exit(reader, node, world, &mut expect.exit);
    }
    for stream in [Stream::Stdout, Stream::Stderr] {
        if let Some(node) = mapping.get(stream.name()) {
            expect.output.extend(read_outputs(reader, node, stream, world));
        }
    }
    let captured = Captured { names: captured_names(reader, &expect.output), context };
    if let Some(items) = mapping.get("report").and_then(|node| reader.list("report", node)) {
        expect.report = items.iter().flat_map(|item| report::read(reader, item, &captured, world)).collect();
    }
    if let Some(items) = mapping.get("invariants").and_then(|node| reader.list("invariants", node)) {
        expect.invariants = items.iter().filter_map(|item| read_invariant(reader, item, &captured)).collect();
    }
    if let Some(items) = mapping.get("perf").and_then(|node| reader.list("perf", node)) {
        expect.perf = items.iter().filter_map(|item| perf::read(reader, item, &captured)).collect();
    }
    if let Some(node) = mapping.get("snapshot") {
        let one = std::slice::from_ref(node);
        let items =
            if matches!(node.value, Value::Map(_)) { one } else { reader.list("snapshot", node).unwrap_or_default() };
        expect.snapshots = items.iter().filter_map(|item| read_snapshot(shared, item, case_id)).collect();
    }
    if let Some(node) = mapping.get("within") {
        expect.within = reader.duration("within", node).map(|within| (within, reader.place(&node.span)));
    }
    if let Some(node) = mapping.get("leaks") {
        expect.leaks = match reader.choice("leaks", node, &["none", "allow"]) {
            Some(0) => Leaks::Strict,
            Some(_) => Leaks::Allowed,
            None => Leaks::default(),
        };
    }
    if let Some(node) = mapping.get("hang") {
        let contains = match &node.value {
            Value::List(_) => reader.texts("hang", node),
            _ => reader.string("hang", node).map(|text| vec![text]),
        };
        expect.hang = contains.map(|contains| HangExpectation { contains, place: reader.place(&node.span) });
    }
    if let Some(items) = mapping.get("findings").and_then(|node| reader.list("findings", node)) {
        expect.findings = items.iter().filter_map(|item| read_finding(reader, item, world)).collect();
    }
    if let Some(items) = mapping.get("gaps").and_then(|node| reader.list("gaps", node)) {
        expect.gaps = items
            .iter()
            .filter_map(|item| {
                Some(GapExpectation { pattern: reader.string("gaps", item)?, place: reader.place(&item.span) })
            })
            .collect();
    }
    mapping.finish();
    expect
}

fn read_finding(reader: &Reader<'_>, node: &Node, world: Option<u32>) -> Option<FindingExpectation> {
    let place = reader.place(&node.span);
    let kind = |node: &Node| reader.choice("finding", node, finding::WORDS).map(|index| finding::KINDS[index].kind);
    if !matches!(node.value, Value::Map(_)) {
        return Some(FindingExpectation {
            kind: kind(node)?,
            ranks: None,
            contains: Vec::new(),
            lines: BTreeMap::new(),
            optional: false,
            place,
        });
    }
    let mapping = reader.section(&language::FINDING, node)?;
    let expectation = FindingExpectation {
        kind: mapping.required("kind", "kind: count_mismatch").and_then(kind)?,
        ranks: mapping.get("ranks").map(|node| read_ranks(reader, node, world)),
        contains: mapping.get("contains").and_then(|node| read_words(reader, node)).unwrap_or_default(),
        lines: mapping.get("lines").map(|node| read_lines(reader, node, world)).unwrap_or_default(),
        optional: mapping.get("optional").and_then(|node| reader.boolean("optional", node)).unwrap_or(false),
        place,
    };
    mapping.finish();
    Some(expectation)
}

/// `0: train.py:31`, ... A launcher's ranks are not known here.
fn read_lines(reader: &Reader<'_>, node: &Node, world: Option<u32>) -> BTreeMap<u32, String> {
    let mut lines = BTreeMap::new();
    for entry in reader.mapping("`lines`", node).iter().flat_map(Mapping::entries) {
        let value = entry.key.parse().map_or(Value::Text(entry.key.clone()), Value::Integer);
        let rank = Node { value, span: entry.key_span.clone() };
        let rank = match world {
            Some(_) => read_rank(reader, &rank, world),
            None => reader.integer("rank", &rank, 0, u32::MAX),
        };
        let Some((rank, line)) = rank.zip(reader.string("lines", &entry.node)) else { continue };
        let number = line.rsplit_once(':').and_then(|(file, number)| number.parse().ok().filter(|_| !file.is_empty()));
        if number.is_none_or(|number: u32| number == 0) {
            reader.mistake(&entry.node.span, format!("`{line}` is not a line of a file"), "write `train.py:31`");
        }
        lines.insert(rank, line);
    }
    lines
}

/// A text, or a list of them.
fn read_words(reader: &Reader<'_>, node: &Node) -> Option<Vec<String>> {
    if let Value::List(_) = &node.value {
        return reader.words("contains", node);
    }
    Some(vec![reader.word("contains", node)?])
}

fn read_exit(reader: &Reader<'_>, node: &Node, world: Option<u32>, exit: &mut ExitExpectation) {
    let placed = |node: &Node| -> Option<Placed> { Some((read_want(reader, node)?, reader.place(&node.span))) };
    if !matches!(node.value, Value::Map(_)) {
        exit.all = placed(node);
        return;
    }
    let Some(mapping) = reader.section(&language::EXIT, node) else { return };
    exit.fatal = mapping.is_fatal();
    exit.all = mapping.get("all").and_then(placed);
    exit.others = mapping.get("others").and_then(placed);
    exit.launcher = mapping.get("launcher").and_then(placed);
    if let Some(ranks) = mapping.get("rank").and_then(|node| reader.mapping("`rank`", node)) {
        for entry in ranks.entries() {
            let rank = Node {
                value: entry.key.parse().map_or(Value::Text(entry.key.clone()), Value::Integer),
                span: entry.key_span.clone(),
            };
            if let (Some(rank), Some(want)) = (read_rank(reader, &rank, world), placed(&entry.node)) {
                exit.ranks.insert(rank, want);
            }
        }
    }
    // `exit: {code: 1}` is the same as `exit: 1`.
    if mapping.entry("code").is_some() || mapping.entry("signal").is_some() {
        let entries = mapping.entries().iter().filter(|entry| entry.key != "fatal").cloned().collect();
        exit.all = placed(&Node { value: Value::Map(entries), span: node.span.clone() });
        return;
    }
    mapping.finish();
}

fn read_want(reader: &Reader<'_>, node: &Node) -> Option<ExitWant> {
    match &node.value {
        Value::Integer(_) => Some(ExitWant::Code(reader.integer("exit", node, 0, 255)? as i32)),
        Value::Text(text) if text == "nonzero" => Some(ExitWant::NonZero),
        Value::Text(text) if text == "any" => Some(ExitWant::Any),
        Value::Map(_) => {
            let mapping = reader.section(&language::ONE_EXIT, node)?;
            let code = mapping.get("code").map(|node| match &node.value {
                Value::Text(text) if text == "nonzero" => Some(ExitWant::NonZero),
                _ => reader.integer("code", node, 0, 255).map(|code| ExitWant::Code(code as i32)),
            });
            let signal = mapping.get("signal").map(|node| match &node.value {
                Value::Text(text) if text == "any" => Some(ExitWant::AnySignal),
                _ => read_signal(reader, node).map(ExitWant::Signal),
            });
            mapping.finish();
            match (code, signal) {
                (Some(want), None) | (None, Some(want)) => want,
                _ => {
                    reader.mistake(
                        &node.span,
                        "an exit is one `code` or one `signal`",
                        "write `{code: 0}`, `{code: nonzero}` or `{signal: SIGKILL}`",
                    );
                    None
                }
            }
        }
        _ => {
            let word = reader.scalar(node).unwrap_or_default();
            let help = format!("{} or a code", did_you_mean(&word, ["nonzero", "any"]));
            reader.mistake(&node.span, format!("unknown exit `{word}`"), help);
            None
        }
    }
}

fn read_outputs(reader: &Reader<'_>, node: &Node, stream: Stream, world: Option<u32>) -> Vec<OutputCheck> {
    let items = match &node.value {
        Value::List(items) => items.as_slice(),
        _ => std::slice::from_ref(node),
    };
    items.iter().flat_map(|item| read_output(reader, item, stream, world)).collect()
}

fn read_output(reader: &Reader<'_>, node: &Node, stream: Stream, world: Option<u32>) -> Vec<OutputCheck> {
    let fatal = std::cell::Cell::new(false);
    let check = |whose, want, capture: Vec<String>, because: &Option<String>, node: &Node| OutputCheck {
        stream,
        whose,
        want,
        capture,
        fatal: fatal.get(),
        because: because.clone(),
        place: reader.place(&node.span),
    };
    if let Value::Text(text) = &node.value {
        return vec![check(Whose::Any, OutputWant::Contains(text.clone()), Vec::new(), &None, node)];
    }
    let Some(mapping) = reader.section_as(&language::OUTPUT, &format!("`{}`", stream.name()), node) else {
        return Vec::new();
    };
    let whose = mapping.get("rank").map(|node| read_whose(reader, node, world));
    fatal.set(mapping.is_fatal());
    let because = mapping.get("because").and_then(|node| reader.string("because", node));
    let mut wants = Vec::new();
    for key in ["contains", "matches", "absent"] {
        let Some(value) = mapping.get(key) else { continue };
        let items = if let Value::List(items) = &value.value { items.as_slice() } else { std::slice::from_ref(value) };
        for item in items {
            let Some(text) = reader.scalar(item).filter(|text| !text.is_empty()) else {
                reader.mistake(&item.span, format!("`{key}` must be text"), "put it in quotes");
                continue;
            };
            let want = match key {
                "contains" => Some(OutputWant::Contains(text)),
                "absent" => Some(OutputWant::Absent(text)),
                _ => regex(reader, item, &text).map(OutputWant::Matches),
            };
            wants.extend(want.map(|want| (want, item)));
        }
    }
    if wants.is_empty() && !["contains", "matches", "absent"].iter().any(|key| mapping.get(key).is_some()) {
        reader.mistake(
            &node.span,
            format!("this check of `{}` asks for nothing", stream.name()),
            "add `contains`, `matches` or `absent`",
        );
    }
    let capture = mapping.get("capture").map(|node| read_captures(reader, node, &wants)).unwrap_or_default();
    if let (Some(node), Some(whose)) = (mapping.get("capture"), &whose)
        && whose.len() > 1
    {
        let help = "capture from one rank, or with `rank: all` from every rank as a list";
        reader.mistake(&node.span, "captures from several ranks", help);
    }
    mapping.finish();
    wants
        .into_iter()
        .flat_map(|(want, item)| {
            let names: Vec<String> = match &want {
                OutputWant::Matches(regex) => {
                    let has = |name: &&String| regex.capture_names().flatten().any(|group| group == name.as_str());
                    capture.iter().filter(has).cloned().collect()
                }
                OutputWant::Contains(_) | OutputWant::Absent(_) => Vec::new(),
            };
            let usual = if matches!(want, OutputWant::Absent(_)) { Whose::All } else { Whose::Any };
            let whose = whose.clone().unwrap_or(vec![usual]);
            let one = |whose| check(whose, want.clone(), names.clone(), &because, item);
            whose.into_iter().map(one).collect::<Vec<_>>()
        })
        .collect()
}

/// The names in `capture`; each must be a group of one `matches`.
fn read_captures(reader: &Reader<'_>, node: &Node, wants: &[(OutputWant, &Node)]) -> Vec<String> {
    let one = std::slice::from_ref(node);
    let items = if let Value::List(items) = &node.value { items.as_slice() } else { one };
    let groups: Vec<&str> = wants
        .iter()
        .filter_map(|(want, _)| if let OutputWant::Matches(regex) = want { Some(regex) } else { None })
        .flat_map(|regex| regex.capture_names().flatten())
        .collect();
    let name_of = |item: &Node| {
        let name = reader.string("capture", item)?;
        match groups.iter().filter(|group| **group == name).count() {
            1 => Some(name),
            0 if groups.is_empty() => {
                let help = format!("write `matches: \"(?<{name}>...)\"`");
                reader.mistake(&item.span, format!("no `matches` here has a group `{name}`"), help);
                None
            }
            0 => {
                let help = did_you_mean(&name, groups.iter().copied());
                reader.mistake(&item.span, format!("no `matches` here has a group `{name}`"), help);
                None
            }
            _ => {
                reader.mistake(&item.span, format!("two `matches` have a group `{name}`"), "rename one of them");
                None
            }
        }
    };
    items.iter().filter_map(name_of).collect()
}

/// The captures of a case's checks; each name may occur once.
fn captured_names(reader: &Reader<'_>, checks: &[OutputCheck]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for check in checks {
        for name in &check.capture {
            if names.contains(name) {
                let span = reader.offset(&check.place);
                reader.mistake(&span, format!("`{name}` is captured twice"), "rename one of the groups");
            } else {
                names.push(name.clone());
            }
        }
    }
    names
}

/// Reads each of these; returns nothing after a mistake.
fn read_whose(reader: &Reader<'_>, node: &Node, world: Option<u32>) -> Vec<Whose> {
    match &node.value {
        Value::Integer(_) | Value::List(_) => read_ranks(reader, node, world).into_iter().map(Whose::Rank).collect(),
        _ => {
            let index = reader.choice("rank", node, &["any", "all", "launcher"]);
            index.map(|index| [Whose::Any, Whose::All, Whose::Launcher][index]).into_iter().collect()
        }
    }
}

fn read_invariant(reader: &Reader<'_>, node: &Node, captured: &Captured) -> Option<Invariant> {
    let (id, that, because, at, fatal) = match &node.value {
        Value::Map(_) => {
            let mapping = reader.section(&language::INVARIANT, node)?;
            let id = mapping.get("id").and_then(|node| reader.string("id", node));
            let that = mapping
                .required("that", "that: report.cluster.world_size == 4")
                .and_then(|node| Some((reader.string("that", node)?, node)));
            let because = mapping.get("because").and_then(|node| reader.string("because", node));
            let fatal = mapping.is_fatal();
            mapping.finish();
            let (that, at) = that?;
            (id, that, because, at, fatal)
        }
        _ => (None, reader.string("invariants", node)?, None, node, false),
    };
    match expression::names(&that) {
        Err(error) => {
            reader.mistake(&at.span, format!("wrong expression: {error}"), "");
            return None;
        }
        Ok(names) => {
            for name in names.iter().filter(|name| !invariant::NAMES.contains(&name.as_str())) {
                reader.mistake(&at.span, format!("unknown name `{name}`"), did_you_mean(name, invariant::NAMES));
            }
            captured.check(reader, &at.span, &that);
            check_fields(reader, at, &that);
        }
    }
    Some(Invariant { id, that, fatal, because, place: reader.place(&at.span) })
}

/// Reports fields that no report has.
fn check_fields(reader: &Reader<'_>, at: &Node, that: &str) {
    for (name, of) in [("report", ReportKind::Cluster), ("devices", ReportKind::Device)] {
        for names in expression::uses(that, name).unwrap_or_default() {
            if let Err(unknown) = Report::for_kind(of, false).check_names(&names) {
                let start = ['.', '\'', '"'].iter().find_map(|before| that.find(&format!("{before}{}", unknown.name)));
                let place = start.map_or(0..that.len(), |start| start + 1..start + 1 + unknown.name.len());
                let span = reader.part(&at.span, that, place);
                reader.mistake(&span, format!("the report has no `{}` there", unknown.name), unknown.help);
            }
        }
    }
}

fn read_snapshot(shared: &Shared<'_>, node: &Node, case_id: &str) -> Option<SnapshotCheck> {
    let reader = shared.reader;
    let mapping = reader.section(&language::SNAPSHOT, node)?;
    let name = mapping.get("name").map_or(Some("report".to_owned()), |node| slug(reader, "name", node));
    let of = read_kind(reader, &mapping);
    let path = |span: &Span, text: &str| Some(read_path(reader, span, text, Report::for_kind(of, false))?.0);
    let path_of = |entry: &Entry| path(&entry.key_span, &entry.key);
    let select = mapping.get("select").and_then(|node| reader.list("select", node)).unwrap_or_default();
    let select = select.iter().filter_map(|item| path(&item.span, &reader.string("select", item)?)).collect();
    let entries = |key: &'static str| {
        let inner = mapping.get(key).and_then(|node| reader.mapping(&format!("`{key}`"), node));
        inner.map(|inner| inner.entries()).unwrap_or_default()
    };
    let redact = entries("redact")
        .iter()
        .filter_map(|entry| Some((path_of(entry)?, reader.word("redact", &entry.node)?)))
        .collect();
    let round = entries("round")
        .iter()
        .filter_map(|entry| Some((path_of(entry)?, reader.integer("round", &entry.node, 0, 15)?)))
        .collect();
    let sort = entries("sort")
        .iter()
        .filter_map(|entry| Some((path_of(entry)?, reader.texts("sort", &entry.node)?)))
        .collect();
    mapping.finish();
    let name = name?;
    let beside = reader.file().parent().unwrap_or(std::path::Path::new(""));
    let path = beside.join("snapshots").join(&shared.suite).join(snapshot_file::file_name(case_id, &name));
    Some(SnapshotCheck {
        name,
        of,
        selection: Selection { select, redact, round, sort },
        path,
        place: reader.place(&node.span),
    })
}
