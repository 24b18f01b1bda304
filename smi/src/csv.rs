//! `--query-gpu` and `--query-compute-apps` as comma separated values.

use crate::arguments::Format;
use crate::field::{self, Subject};
use crate::gpu::{Gpu, Machine, Reading, missing};

/// The header, if `is_first` and wanted, and a line per GPU or process.
pub(crate) fn table(
    machine: &Machine<'_>,
    of_processes: bool,
    fields: &[String],
    format: Format,
    is_first: bool,
) -> String {
    let mut text = String::new();
    if is_first && !format.no_header {
        let header: Vec<String> = fields.iter().filter_map(|name| header(of_processes, name)).collect();
        text += &format!("{}\n", header.join(", "));
    }
    for gpu in &machine.gpus {
        for cells in
            if of_processes { of_its_processes(gpu, fields, format) } else { vec![of_gpu(gpu, fields, format)] }
        {
            text += &format!("{}\n", cells.join(", "));
        }
    }
    text
}

/// `memory.total [MiB]`: the field's own name, whichever was asked for.
fn header(of_processes: bool, name: &str) -> Option<String> {
    let (name, unit) = if of_processes {
        field::find_of_process(name).map(|field| (field.names[0], field.unit))?
    } else {
        field::find(name).map(|field| (field.names[0], field.unit))?
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
    field::find(name).map(|field| cell(field.read.of(gpu), field.unit, format))
}

fn of_gpu(gpu: &Gpu<'_>, fields: &[String], format: Format) -> Vec<String> {
    fields.iter().filter_map(|name| of_field(gpu, name, format)).collect()
}

fn of_its_processes(gpu: &Gpu<'_>, fields: &[String], format: Format) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (process, name) in gpu.processes() {
        let value = |asked: &String| {
            let field = field::find_of_process(asked)?;
            Some(match field.of {
                Subject::Gpu(of) => of_field(gpu, of, format)?,
                Subject::Pid => process.pid.to_string(),
                Subject::Name => name.clone(),
                Subject::Memory => cell(Ok((process.used_memory >> 20).to_string()), field.unit, format),
            })
        };
        rows.push(fields.iter().filter_map(value).collect());
    }
    rows
}
