//! The queries about parts of a GPU, as data: its processes, retired pages, remapped rows and supported clocks. Each has its own
//! fields and prints one line per part.

use crate::field;
use crate::gpu::Gpu;
use crate::nvml::Code;

/// A query.
#[derive(Debug)]
pub(crate) struct Query {
    /// The option without `--query-`.
    pub(crate) name: &'static str,
    /// The beginning of its help text.
    pub(crate) about: &'static str,
    /// Its own fields, after the common ones.
    own_fields: &'static [PartField],
    /// The parts of a GPU.
    pub(crate) parts: fn(&Gpu<'_>) -> Vec<Part>,
}

impl PartialEq for Query {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Query {}

/// A field: names, unit, and its source.
#[derive(Debug)]
pub(crate) struct PartField {
    pub(crate) names: &'static [&'static str],
    pub(crate) unit: &'static str,
    pub(crate) of: Subject,
    pub(crate) about: &'static str,
}

/// The source of a field.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Subject {
    /// The GPU: the field of this name.
    Gpu(&'static str),
    /// The nth value of the part.
    Nth(usize),
}

/// The values of one part, by the order of the query.
pub(crate) type Part = Vec<Result<String, Code>>;

const fn of_part(names: &'static [&'static str], unit: &'static str, nth: usize, about: &'static str) -> PartField {
    PartField { names, unit, of: Subject::Nth(nth), about }
}

const fn of_gpu(names: &'static [&'static str], field: &'static str) -> PartField {
    PartField { names, unit: "", of: Subject::Gpu(field), about: "" }
}

/// The first fields of every query.
static COMMON: &[PartField] = &[
    of_gpu(&["timestamp"], "timestamp"),
    of_gpu(&["gpu_name"], "name"),
    of_gpu(&["gpu_bus_id"], "pci.bus_id"),
    of_gpu(&["gpu_serial"], "serial"),
    of_gpu(&["gpu_uuid"], "uuid"),
];

/// All such queries.
pub(crate) static QUERIES: &[Query] = &[
    Query {
        name: "compute-apps",
        about: "Section about Active Compute Processes properties\nList of processes having compute context on the device.\n",
        own_fields: &[
            of_part(&["pid"], "", 0, "Process id of the compute application."),
            of_part(&["process_name", "name"], "", 1, "Name of the process."),
            of_part(&["used_gpu_memory", "used_memory"], "MiB", 2, "Memory that the context of the process uses."),
        ],
        parts: processes,
    },
    Query {
        name: "accounted-apps",
        about: "Section about Accounted Graphics/Compute Processes properties\nList of accounted processes. Accounting is off \
                unless an administrator turned it on.\n",
        own_fields: &[
            of_part(&["vgpu_instance"], "", 0, "vGPU instance of the process."),
            of_part(&["pid"], "", 1, "Process id of the application."),
            of_part(
                &["gpu_utilization", "gpu_util"],
                "%",
                2,
                "Percentage of its life during which a kernel of it ran.",
            ),
            of_part(&["mem_utilization", "mem_util"], "%", 3, "Percentage of its life during which memory was used."),
            of_part(&["max_memory_usage", "max_memory"], "MiB", 4, "The most memory that the process used."),
            of_part(&["time"], "ms", 5, "Time during which the process had a context."),
        ],
        parts: accounted,
    },
    Query {
        name: "retired-pages",
        about: "Section about Retired Pages properties\nList of GPU device memory pages that have been retired.\n",
        own_fields: &[
            of_part(&["retired_pages.address"], "", 0, "Address of the page, in hex."),
            of_part(&["retired_pages.cause"], "", 1, "Why it was retired: Single Bit ECC or Double Bit ECC."),
        ],
        parts: retired_pages,
    },
    Query {
        name: "remapped-rows",
        about: "Section about Remapped Rows properties\nNumbers of rows of the memory that were remapped.\n",
        own_fields: &[
            of_gpu(&["remapped_rows.correctable"], "remapped_rows.correctable"),
            of_gpu(&["remapped_rows.uncorrectable"], "remapped_rows.uncorrectable"),
            of_gpu(&["remapped_rows.pending"], "remapped_rows.pending"),
            of_gpu(&["remapped_rows.failure"], "remapped_rows.failure"),
            of_gpu(&["remapped_rows.histogram.max"], "remapped_rows.histogram.max"),
            of_gpu(&["remapped_rows.histogram.high"], "remapped_rows.histogram.high"),
            of_gpu(&["remapped_rows.histogram.partial"], "remapped_rows.histogram.partial"),
            of_gpu(&["remapped_rows.histogram.low"], "remapped_rows.histogram.low"),
            of_gpu(&["remapped_rows.histogram.none"], "remapped_rows.histogram.none"),
        ],
        parts: whole,
    },
    Query {
        name: "supported-clocks",
        about: "Section about Supported Clocks properties\nList of possible memory and graphics clocks combinations.\n",
        own_fields: &[
            of_part(&["memory", "mem"], "MHz", 0, "A clock of the memory."),
            of_part(&["graphics", "gr"], "MHz", 1, "A clock of graphics that goes with it."),
        ],
        parts: supported_clocks,
    },
];

fn processes(gpu: &Gpu<'_>) -> Vec<Part> {
    let part = |(process, name): (crate::nvml::Process, String)| {
        vec![Ok(process.pid.to_string()), Ok(name), Ok((process.used_memory >> 20).to_string())]
    };
    gpu.processes().into_iter().map(part).collect()
}

/// Empty: accounting is off, and the caller may not turn it on.
fn accounted(_gpu: &Gpu<'_>) -> Vec<Part> {
    Vec::new()
}

fn retired_pages(gpu: &Gpu<'_>) -> Vec<Part> {
    let mut parts = Vec::new();
    for (cause, word) in [(0, "Single Bit ECC"), (1, "Double Bit ECC")] {
        let pages = match gpu.nvml.retired_pages(gpu.device, cause) {
            Ok(pages) => pages,
            Err(code) => {
                parts.push(vec![Err(code), Ok(word.to_owned())]);
                continue;
            }
        };
        parts.extend(pages.iter().map(|address| vec![Ok(format!("0x{address:016x}")), Ok(word.to_owned())]));
    }
    parts
}

/// The GPU itself.
fn whole(_gpu: &Gpu<'_>) -> Vec<Part> {
    vec![Vec::new()]
}

fn supported_clocks(gpu: &Gpu<'_>) -> Vec<Part> {
    let mut parts = Vec::new();
    for memory in gpu.nvml.memory_clocks(gpu.device).unwrap_or_default() {
        let graphics = gpu.nvml.graphics_clocks(gpu.device, memory).unwrap_or_default();
        parts.extend(graphics.iter().map(|clock| vec![Ok(memory.to_string()), Ok(clock.to_string())]));
    }
    parts
}

/// The query of this name.
pub(crate) fn find(name: &str) -> Option<&'static Query> {
    QUERIES.iter().find(|query| query.name == name)
}

impl Query {
    /// All fields, in the order of the help.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &'static PartField> {
        COMMON.iter().chain(self.own_fields)
    }

    /// The field of this name.
    pub(crate) fn field(&self, name: &str) -> Option<&'static PartField> {
        self.fields().find(|field| field.names.contains(&name))
    }
}

impl PartField {
    /// What its help says.
    pub(crate) fn about(&self) -> &'static str {
        match self.of {
            Subject::Gpu(name) => field::find(name).map_or("", |field| field.about),
            Subject::Nth(_) => self.about,
        }
    }
}
