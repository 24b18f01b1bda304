//! The tables of docs/suites.md.

use super::{Key, Section, Shape, Unless, all};

/// The table of the section `name`.
pub fn table_of(name: &str) -> Option<String> {
    all().into_iter().find(|section| section.name == name).map(table)
}

/// The names of all sections that have a table; the keys of `defaults` are keys of a case.
pub fn sections() -> Vec<&'static str> {
    all().into_iter().map(|section| section.name).filter(|name| *name != "defaults").collect()
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
