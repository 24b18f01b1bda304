//! What an environment lacks on purpose, although a package in it requires it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::requirement;
use crate::case::python::{is_optional, is_replaced, optional, package, replaced};

/// The packages that uv leaves out, except those explicitly requested; with `complete`, only those that the shim replaces.
pub(super) fn excluded(requirements: &[String], complete: bool) -> Vec<String> {
    let wanted: Vec<String> = requirements.iter().map(|line| package(line)).collect();
    let spared = optional().filter(|_| !complete).map(str::to_owned);
    replaced().chain(spared).filter(|name| !wanted.contains(name)).collect()
}

/// The packages of an environment with what each requires, apart from extras.
pub(super) struct Installed(BTreeMap<String, Vec<String>>);

impl Installed {
    /// Reads the metadata of all packages.
    pub(super) fn read(site: &Path) -> Installed {
        let read = |entry: fs::DirEntry| {
            let file = entry.file_name();
            let (name, _) = file.to_str()?.strip_suffix(".dist-info")?.split_once('-')?;
            let metadata = fs::read_to_string(entry.path().join("METADATA")).ok()?;
            let entries = requirement::requires_dist(&metadata).into_iter().filter(|entry| !entry.contains("extra =="));
            Some((package(name), entries.map(str::to_owned).collect()))
        };
        Installed(fs::read_dir(site).into_iter().flatten().flatten().filter_map(read).collect())
    }

    /// Whether a package other than PyTorch requires something that was spared for PyTorch.
    pub(super) fn needs_spared(&self) -> bool {
        let others = self.0.iter().filter(|(name, _)| !requirement::is_lean(name));
        others.flat_map(|(_, entries)| entries).any(|entry| is_optional(entry) && !self.0.contains_key(&package(entry)))
    }

    /// The names of what is left out, given the entries that were taken out of PyTorch's metadata.
    pub(super) fn lacks(&self, spared: &[String]) -> Vec<String> {
        let entries = self.0.values().flatten().chain(spared);
        let left_out = entries.filter(|entry| is_replaced(entry) || is_optional(entry)).map(|entry| package(entry));
        left_out.filter(|name| !self.0.contains_key(name)).collect::<BTreeSet<_>>().into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_asks_for_is_not_left_out() {
        let names = excluded(&["triton==3.9.0".to_owned(), "torch".to_owned()], false);
        assert!(!names.contains(&"triton".to_owned()) && names.contains(&"nvidia-nccl-cu13".to_owned()));
        assert!(names.contains(&"cuda-bindings".to_owned()));
        let names = excluded(&["torch".to_owned()], true);
        assert!(names.iter().all(|name| is_replaced(name)), "{names:?}");
    }

    #[test]
    fn what_only_pytorch_requires_is_left_out_and_listed() {
        let site = tempfile::tempdir().unwrap();
        let put = |name: &str, needs: &[&str]| {
            let directory = site.path().join(format!("{name}-1.0.dist-info"));
            fs::create_dir_all(&directory).unwrap();
            let entries: String = needs.iter().map(|need| format!("Requires-Dist: {need}\n")).collect();
            fs::write(directory.join("METADATA"), format!("Name: {name}\n{entries}\n")).unwrap();
        };
        put("torch", &["filelock"]);
        put("filelock", &[]);
        let spared = ["nvidia-nccl-cu13==2.30", "triton~=3.9.0", "cuda-bindings<14"].map(str::to_owned);
        let installed = Installed::read(site.path());
        assert!(!installed.needs_spared());
        assert_eq!(installed.lacks(&spared), ["cuda-bindings", "nvidia-nccl-cu13", "triton"]);
        put("megatron_core", &["triton", "nvidia-cudnn-cu13", "cuda-bindings; extra == \"x\""]);
        let installed = Installed::read(site.path());
        assert!(installed.needs_spared());
        put("triton", &[]);
        let installed = Installed::read(site.path());
        assert!(!installed.needs_spared());
        assert_eq!(installed.lacks(&spared), ["cuda-bindings", "nvidia-cudnn-cu13", "nvidia-nccl-cu13"]);
    }
}
