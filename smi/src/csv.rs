//! `--query-gpu`, and the queries about parts of GPUs, as comma separated values.

use crate::arguments::Format;
use crate::field;
use crate::gpu::{Gpu, Machine, Reading, missing};
use crate::part::{Query, Subject};

/// The header, if `is_first` and requested, and one line per GPU, or per requested part of it.
pub(crate) fn table(
    machine: &Machine<'_>,
    of: Option<&'static Query>,
    fields: &[String],
    format: Format,
    is_first: bool,
) -> String {
    let mut text = String::new();
    if is_first && !format.no_header {
        let header: Vec<String> = fields.iter().filter_map(|name| header(of, name)).collect();
        text += &format!("{}\n", header.join(", "));
    }
    for gpu in &machine.gpus {
        let rows = match of {
            Some(query) => of_parts(gpu, query, fields, format),
            None => vec![of_gpu(gpu, fields, format)],
        };
        for cells in rows {
            text += &format!("{}\n", cells.join(", "));
        }
    }
    text
}

/// `memory.total [MiB]`: the field's main name, even if an alias was requested.
fn header(of: Option<&'static Query>, name: &str) -> Option<String> {
    let (name, unit) = match of {
        Some(query) => query.field(name).map(|field| (field.names[0], field.unit))?,
        None => field::find(name).map(|field| (field.names[0], field.unit))?,
    };
    Some(if unit.is_empty() { name.to_owned() } else { format!("{name} [{unit}]") })
}

/// A value with its unit, or `[N/A]`.
fn cell(reading: Reading, unit: &str, format: Format) -> String {
    match reading {
        Ok(value) if unit.is_empty() || format.no_units => value,
        Ok(value) => format!("{value} {unit}"),
        Err(code) => format!("[{}]", missing(code)),
    }
}

fn of_field(gpu: &Gpu<'_>, name: &str, format: Format) -> Option<String> {
    field::find(name).map(|field| cell(field.read.read(gpu), field.unit, format))
}

fn of_gpu(gpu: &Gpu<'_>, fields: &[String], format: Format) -> Vec<String> {
    fields.iter().filter_map(|name| of_field(gpu, name, format)).collect()
}

fn of_parts(gpu: &Gpu<'_>, query: &'static Query, fields: &[String], format: Format) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for part in (query.parts)(gpu) {
        let value = |asked: &String| {
            let field = query.field(asked)?;
            Some(match field.of {
                Subject::Gpu(of) => of_field(gpu, of, format)?,
                Subject::Nth(nth) => cell(part.get(nth)?.clone(), field.unit, format),
            })
        };
        rows.push(fields.iter().filter_map(value).collect());
    }
    rows
}
