//! `fixtures` and `uses`: what is set up around cases.

use std::path::Path;
use std::sync::Arc;

use model::node::{Node, Value};
use serde_json::json;

use crate::case::fixture::{Fixture, Scope, Step, StepTimeout};
use crate::expression::deferred;
use crate::expression::deferred::Deferred;
use crate::suite::fixture_definitions::{Definition, Definitions};
use crate::suite::language;
use crate::suite::reader::{Mapping, Reader, did_you_mean};
use crate::suite::surroundings::{read_env, read_python};
use crate::suite::{Shared, directory, room, template, variables};

/// The fixtures named in `uses` of these layers, and those that they use, in setup order.
pub(super) fn resolve(
    shared: &Shared<'_>,
    layers: &[&Mapping<'_, '_>],
    context: &serde_json::Value,
) -> Vec<Arc<Fixture>> {
    let reader = shared.reader;
    let definitions = &shared.fixtures;
    let mut order = Vec::new();
    for node in layers.iter().filter_map(|layer| layer.get("uses")) {
        let names = reader.texts("uses", node).unwrap_or_default();
        for (name, item) in names.iter().zip(reader.list("uses", node).unwrap_or_default()) {
            match definitions.by_name.get_key_value(name) {
                Some((name, _)) => add(definitions, name, &mut order),
                None => definitions.unknown(reader, name, &item.span),
            }
        }
    }
    order.into_iter().filter_map(|name| build(shared, name, context)).collect()
}

fn add<'d>(definitions: &'d Definitions<'_>, name: &'d str, order: &mut Vec<&'d str>) {
    let mut stack = vec![(name, false)];
    let mut seen = Vec::new();
    while let Some((name, through)) = stack.pop() {
        let Some((name, definition)) = definitions.by_name.get_key_value(name) else { continue };
        definition.used.set(true);
        if through {
            order.push(name);
        } else if !order.contains(&name.as_str()) && !seen.contains(&name.as_str()) {
            seen.push(name.as_str());
            stack.push((name, true));
            stack.extend(definition.uses.iter().rev().map(|other| (other.as_str(), false)));
        }
    }
}

fn build(shared: &Shared<'_>, name: &str, context: &serde_json::Value) -> Option<Arc<Fixture>> {
    let definition = shared.fixtures.by_name.get(name)?;
    match definition.scope {
        Scope::Case => one(shared, name, definition, context).map(Arc::new),
        Scope::Suite => {
            let mut made = definition.made.borrow_mut();
            if made.is_none() {
                *made = one(shared, name, definition, &shared.context(json!({}), json!({}), None)).map(Arc::new);
            }
            made.clone()
        }
    }
}

fn one(shared: &Shared<'_>, name: &str, definition: &Definition<'_>, context: &serde_json::Value) -> Option<Fixture> {
    let reader = shared.reader;
    let rendered = template::render(reader, definition.node, context);
    let fixture = reader.section(&language::fixture::FIXTURE, &rendered)?;
    for key in ["scope", "outputs", "uses"] {
        fixture.get(key);
    }
    let dir = directory::of_fixture(shared, fixture.get("cwd"), context);
    let setup = fixture.required("setup", "setup: {argv: [program, argument]}");
    let setup = setup.and_then(|node| read_step(reader, "setup", node, &dir));
    let teardown = fixture.get("teardown").map(|node| read_step(reader, "teardown", node, &dir));
    let (mut env, mut env_unset) = Default::default();
    if let Some(node) = fixture.get("env") {
        variables::of_fixture(reader, node);
        read_env(reader, node, &mut env, &mut env_unset);
    }
    let timeout = fixture.get("timeout").map(|node| read_timeout(reader, node)).unwrap_or_default();
    let python = fixture.get("python").and_then(|node| read_python(reader, node, &shared.dir));
    fixture.finish();
    let permitted = |path: &[&str]| matches!(path.first(), Some(&("setup" | "teardown" | "env")));
    check_late(shared, &rendered, &permitted, &definition.uses, true);
    Some(Fixture {
        name: name.to_owned(),
        suite: shared.suite.clone(),
        place: reader.place(definition.key),
        scope: definition.scope,
        setup: setup?,
        teardown: teardown.flatten(),
        outputs: definition.outputs.clone(),
        env,
        env_unset,
        timeout,
        python,
        uses: definition.uses.clone(),
        dir,
    })
}

fn read_step(reader: &Reader<'_>, what: &str, node: &Node, cwd: &Path) -> Option<Step> {
    let mapping = reader.section(&language::fixture::STEP, node)?;
    let argv = mapping.get("argv").map(|node| reader.words("argv", node).filter(|words| !words.is_empty()));
    let shell = mapping.get("shell").map(|node| reader.string("shell", node));
    if let (Some(node), Some(Some(words))) = (mapping.get("argv"), &argv) {
        room::check_program(reader, node, words, cwd);
    }
    mapping.finish();
    let argv = match (argv, shell) {
        (Some(argv), None) => argv?,
        (None, Some(script)) => vec!["sh".to_owned(), "-c".to_owned(), script?],
        _ => {
            let message = format!("`{what}` is one `argv` or one `shell`");
            reader.mistake(&node.span, message, "write `{argv: [program, argument]}` or `{shell: \"command\"}`");
            return None;
        }
    };
    Some(Step { argv, place: reader.place(&node.span) })
}

fn read_timeout(reader: &Reader<'_>, node: &Node) -> StepTimeout {
    let mut timeout = StepTimeout::default();
    if !matches!(node.value, Value::Map(_)) {
        timeout.kill = reader.duration("timeout", node).unwrap_or(timeout.kill);
        return timeout;
    }
    let Some(mapping) = reader.section(&language::fixture::STEP_TIMEOUT, node) else { return timeout };
    for (key, value) in [("kill", &mut timeout.kill), ("grace", &mut timeout.grace)] {
        if let Some(duration) = mapping.get(key).and_then(|node| reader.duration(key, node)) {
            *value = duration;
        }
    }
    mapping.finish();
    timeout
}

/// Where a case may refer to fixture outputs: words of its command line, variables, and text looked for in its output.
fn in_case(path: &[&str]) -> bool {
    match path {
        ["launch", rest @ ..] => ["argv", "args", "options"].iter().any(|key| rest.contains(key)),
        ["env", ..] => true,
        ["expect", "stdout" | "stderr", rest @ ..] => !rest.contains(&"matches") && !rest.contains(&"rank"),
        _ => false,
    }
}

/// Reports late values where they are not allowed, and those of fixtures that the case does not use.
pub(super) fn check_case(shared: &Shared<'_>, rendered: &Node, uses: &[Arc<Fixture>]) {
    let names: Vec<String> = uses.iter().map(|fixture| fixture.name.clone()).collect();
    check_late(shared, rendered, &in_case, &names, false);
}

/// Reports late values: there is no case yet.
pub(super) fn check_none(shared: &Shared<'_>, rendered: &Node) {
    check_late(shared, rendered, &|_| false, &[], false);
}

fn check_late(
    shared: &Shared<'_>,
    node: &Node,
    permitted: &dyn Fn(&[&str]) -> bool,
    uses: &[String],
    in_fixture: bool,
) {
    let mut todo: Vec<(Vec<&str>, &Node)> = vec![(Vec::new(), node)];
    while let Some((path, node)) = todo.pop() {
        match &node.value {
            Value::Text(text) => {
                for output in deferred::waits_for(text) {
                    if let Some((message, help)) = wrong(shared, &output, permitted(&path), uses, in_fixture) {
                        shared.reader.mistake(&node.span, message, help);
                    }
                }
            }
            Value::List(items) => todo.extend(items.iter().map(|item| (path.clone(), item))),
            Value::Map(entries) => todo.extend(entries.iter().map(|entry| {
                let path = path.iter().copied().chain([entry.key.as_str()]).collect();
                (path, &entry.node)
            })),
            _ => {}
        }
    }
}

fn wrong(
    shared: &Shared<'_>,
    output: &Deferred,
    permitted: bool,
    uses: &[String],
    in_fixture: bool,
) -> Option<(String, String)> {
    let Deferred::Output { fixture, output } = output else {
        let help = "the processes of a case have FTEST_SCRATCH in their environment";
        return (!in_fixture || !permitted)
            .then(|| ("`dir.scratch` is the directory of a fixture's steps".to_owned(), help.to_owned()));
    };
    let definitions = &shared.fixtures;
    let Some(definition) = definitions.by_name.get(fixture) else {
        let help = did_you_mean(fixture, definitions.by_name.keys().map(String::as_str));
        return Some((format!("unknown fixture `{fixture}`"), help));
    };
    if !definition.outputs.contains(output) {
        let help = did_you_mean(output, definition.outputs.iter().map(String::as_str));
        return Some((format!("the fixture `{fixture}` has no output `{output}`"), help));
    }
    if !permitted {
        let places = if in_fixture {
            "`setup`, `teardown` and `env`"
        } else {
            "`argv`, `args`, `options`, `env` and `contains` of `stdout` and `stderr`"
        };
        return Some((
            format!("`fixtures.{fixture}.{output}` is known only when the case runs"),
            format!("it can be used in {places}"),
        ));
    }
    (!uses.contains(fixture))
        .then(|| (format!("`{fixture}` is not among the fixtures used here"), format!("add `uses: [{fixture}]`")))
}
