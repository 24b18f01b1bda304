//! The interpreters of a run: what each has, asked once, and whether that is what cases declare.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tokio::sync::{Mutex, OnceCell};

use super::inventory::{Inventory, Started};
use super::managed::left_out;
use super::unmet::{has_hashes, named, unmet};
use super::{Python, chosen};
use crate::case::python::{MANAGED, PythonNeed, is_default, shown};
use crate::observation::{PythonError, PythonUsed};

/// Packages whose versions are always reported.
const REPORTED: [&str; 2] = ["torch", "numpy"];

type Asked = Arc<OnceCell<Option<Inventory>>>;

/// What the interpreters of a run have answered.
#[derive(Debug, Default)]
pub struct Pythons {
    asked: Mutex<HashMap<Started, Asked>>,
}

/// An interpreter as a case uses it.
#[derive(Debug)]
pub struct Used {
    /// The interpreter as the report shows it.
    pub python: PythonUsed,
    /// Why it is not what the case declares.
    pub error: Option<PythonError>,
}

impl Pythons {
    /// `python` as these processes start it. What `need` declares is compared with it if ftest did not make it. With `torch`, the
    /// launch itself needs PyTorch.
    pub async fn used(&self, python: &Python, started: Started, need: &PythonNeed, torch: bool) -> Used {
        let asked = Arc::clone(self.asked.lock().await.entry(started.clone()).or_default());
        let inventory = asked.get_or_init(|| started.inventory()).await.as_ref();
        let declared: &[String] = match need {
            PythonNeed::Managed(requirements) => requirements,
            PythonNeed::System => &[],
        };
        let managed = python.selected == MANAGED;
        let used = PythonUsed {
            program: python.program.clone(),
            version: inventory.map(Inventory::version).unwrap_or_default().to_owned(),
            selected: python.selected.to_owned(),
            packages: versions(declared, inventory),
            without_hashes: !managed && has_hashes(declared),
            left_out: if managed { left_out(python) } else { Vec::new() },
            only_here: false,
        };
        // What ftest chooses itself, nobody declared.
        let mut wanted = declared.to_vec();
        if torch || (matches!(need, PythonNeed::Managed(_)) && is_default(declared)) {
            let is_named = named(declared).any(|name| name == "torch");
            wanted.extend((!is_named).then(|| "torch".to_owned()));
        }
        let error = if managed || wanted.is_empty() { None } else { mismatch(&used, &wanted, inventory) };
        Used { python: used, error }
    }
}

fn versions(declared: &[String], inventory: Option<&Inventory>) -> BTreeMap<String, String> {
    let names = named(declared).chain(REPORTED.map(str::to_owned));
    let packages = inventory.and_then(|inventory| inventory.packages.as_ref());
    names
        .filter_map(|name| Some((packages?.get(&name)?.version.clone(), name)))
        .map(|(version, name)| (name, version))
        .collect()
}

/// Why an interpreter that ftest did not make is not what the case declares.
fn mismatch(used: &PythonUsed, wanted: &[String], inventory: Option<&Inventory>) -> Option<PythonError> {
    let has = match inventory {
        None => "does not say which packages it has".to_owned(),
        Some(inventory) if inventory.packages.is_none() => {
            format!("is Python {}, which cannot list its packages (3.8 can)", used.version)
        }
        Some(inventory) => match unmet(wanted, inventory) {
            none if none.is_empty() => return None,
            lacks => format!("has {}", listed(&lacks)),
        },
    };
    let otherwise = match chosen() {
        Ok(Some(chosen)) => chosen.otherwise(),
        _ => "name another interpreter with FTEST_PYTHON".to_owned(),
    };
    Some(PythonError {
        expected: format!("a Python with {}", shown(wanted)),
        got: format!("{} ({}) {has}", used.program.display(), used.selected),
        next: format!("{otherwise}; or install it there"),
    })
}

/// Phrases for a person: all of them, unless there are many.
fn listed(lacks: &[String]) -> String {
    const MOST: usize = 8;
    let mut text = lacks[..lacks.len().min(MOST)].join(", ");
    if lacks.len() > MOST {
        text.push_str(&format!(", and {} more", lacks.len() - MOST));
    }
    text
}
