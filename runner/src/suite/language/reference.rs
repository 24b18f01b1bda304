//! The page docs/suites-reference.md: every key of the suite language, section by section.

use super::{Key, Section, Shape, Unless, all, needs};

const START: &str = "# All keys of a suite

This page lists every key of the [suite language](suites.md), section by section: its value, its meaning, and what leaving it out
means. It is generated from the tables that the parser itself uses. The guide says what the keys are for, with examples.

";

const HONORED: &str = "## Where keys are honored

What a case declares is honored, refused by `ftest check` and every run, or noted; never dropped. *Its section* is the key that the
table belongs to. A key that `defaults` have and a case cannot honor does not concern that case; if no case honors it, it is refused.

";

/// The whole page.
pub fn page() -> String {
    let sections = all();
    let mut names: Vec<&str> = sections.iter().map(|section| section.name).collect();
    names.sort_unstable();
    let contents: Vec<String> = names.iter().map(|name| format!("[{name}](#keys-of-{name})")).collect();
    let mut out = format!("{START}{} · [where keys are honored](#where-keys-are-honored)\n\n", contents.join(" · "));
    for section in sections {
        out += &format!("## Keys of `{}`\n\n{}\n\n", section.name, section.about);
        if section.name == "defaults" {
            out += "They are those of [`case`](#keys-of-case), from `cluster` on.\n\n";
        } else {
            out += &(table(section) + "\n");
        }
    }
    link_to_guide(&(out + HONORED + &needs::table()))
}

/// `text` with its links to sections of the guide, which the tables name by their anchors alone.
fn link_to_guide(text: &str) -> String {
    let mut parts = text.split("](#");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_here = part.starts_with("keys-of-") || part.starts_with("where-keys-");
        out += if is_here { "](#" } else { "](suites.md#" };
        out += part;
    }
    out
}

/// One section as a table.
fn table(section: &Section) -> String {
    let mut out = String::from("| key | value | | when left out |\n|---|---|---|---|\n");
    for Key { name, shape, unless, about, .. } in section.keys() {
        let left_out = match unless {
            Unless::Required => "a mistake",
            Unless::Nothing => "",
            Unless::Default(default) => default,
        };
        let cells = [format!("`{name}`"), describe(shape), (*about).to_owned(), left_out.to_owned()];
        out.push_str(&format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | ")));
    }
    out
}

fn describe(shape: &Shape) -> String {
    match shape {
        Shape::Text => "text".to_owned(),
        Shape::Name => "name (letters, digits, `-`, `_`, `.`)".to_owned(),
        Shape::Word => "scalar".to_owned(),
        Shape::Bool => "`true`, `false`".to_owned(),
        Shape::Integer(min, max) if *max == u32::MAX => format!("whole number from {min}"),
        Shape::Integer(min, max) => format!("whole number {min} to {max}"),
        Shape::Number => "number".to_owned(),
        Shape::Positive => "number above 0".to_owned(),
        Shape::NotNegative => "number, 0 or more".to_owned(),
        Shape::AnyNumber => "number, `nan` or `inf`".to_owned(),
        Shape::Duration => "duration".to_owned(),
        Shape::Size => "number or size".to_owned(),
        Shape::Bound => "number or `-10%`".to_owned(),
        Shape::Choice(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        Shape::Exactly(number) => format!("`{number}`"),
        Shape::Null => "`~`".to_owned(),
        Shape::Any => "any".to_owned(),
        Shape::Path => "path".to_owned(),
        Shape::Regex => "regex".to_owned(),
        Shape::Expression => "expression".to_owned(),
        Shape::List(_, inner) => match inner {
            Shape::Section(section) => format!("list of [`{0}`](#keys-of-{0})", section.name),
            inner => format!("list of {}", describe(inner)),
        },
        Shape::Names(inner) => format!("names → {}", describe(inner)),
        Shape::Section(section) => format!("[`{0}`](#keys-of-{0})", section.name),
        Shape::Either(choices) => choices.iter().map(describe).collect::<Vec<_>>().join(" or "),
        Shape::Literal(inner) => describe(inner),
    }
}
