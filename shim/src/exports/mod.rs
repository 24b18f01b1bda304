//! The tables of libcuda, libcudart, libnccl and libnvidia-ml; all tables together; and the lookup of code by name, for
//! cuGetProcAddress and cudaGetDriverEntryPoint.

pub(crate) mod cuda_driver;
pub(crate) mod cuda_runtime;
mod entry_point;
pub(crate) mod nccl;
pub(crate) mod nvml;

use std::collections::HashMap;
use std::sync::OnceLock;

use abi::table::Export;

/// The tables of all libraries; their names are exactly what the built library exports.
pub fn tables() -> Vec<&'static [Export]> {
    let mut tables = vec![cuda_runtime::EXPORTS, cuda_driver::EXPORTS, nccl::EXPORTS, nvml::EXPORTS];
    tables.extend(crate::libraries::tables());
    tables
}

/// The export called `name`.
pub(crate) fn find(name: &str) -> Option<&'static Export> {
    static INDEX: OnceLock<HashMap<&'static str, &'static Export>> = OnceLock::new();
    let index = INDEX.get_or_init(|| tables().into_iter().flatten().map(|export| (export.name, export)).collect());
    index.get(name).copied()
}
