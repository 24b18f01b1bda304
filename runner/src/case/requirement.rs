//! Whether this machine has what a case requires.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};

use crate::case::{Case, Requirement};
use crate::host::machine;
use crate::host::variable;
use crate::host::version::{Range, Version};

/// Modules of a Python: each module's version, empty if unknown; `None` if the module is missing.
pub type Modules = BTreeMap<String, Option<String>>;

/// The first unmet requirement of `case` that can be checked without Python, as the reason for skipping the case.
pub fn unmet(case: &Case) -> Option<String> {
    let machine = Machine { dir: &case.dir, modules: None };
    case.requires.iter().filter(|requirement| modules_of(requirement).is_empty()).find_map(|one| machine.lacks(one))
}

/// The Python modules that `case` requires.
pub fn modules(case: &Case) -> Vec<&str> {
    case.requires.iter().flat_map(modules_of).collect()
}

/// The first unmet requirement that needs Python to be checked, given the Python and its modules, or `None` if there is
/// no Python.
pub fn unmet_by_python(case: &Case, python: Option<(&Path, &Modules)>) -> Option<String> {
    let machine = Machine { dir: &case.dir, modules: Some(python) };
    case.requires.iter().filter(|requirement| !modules_of(requirement).is_empty()).find_map(|one| machine.lacks(one))
}

fn modules_of(requirement: &Requirement) -> Vec<&str> {
    match requirement {
        Requirement::PythonModule { name, .. } => vec![name],
        Requirement::Not(inner) => modules_of(inner),
        Requirement::Any(all) | Requirement::All(all) => all.iter().flat_map(modules_of).collect(),
        _ => Vec::new(),
    }
}

struct Machine<'a> {
    dir: &'a Path,
    /// Set once the Python is known.
    modules: Option<Option<(&'a Path, &'a Modules)>>,
}

impl Machine<'_> {
    /// Why the requirement is not met.
    fn lacks(&self, requirement: &Requirement) -> Option<String> {
        match requirement {
            Requirement::Platform(wanted) => {
                let here = [env::consts::OS.to_owned(), format!("{}-{}", env::consts::OS, env::consts::ARCH)];
                (!here.contains(wanted)).then(|| format!("requires platform {wanted} (this is {})", here[1]))
            }
            Requirement::Command(program) => {
                on_path(program).is_none().then(|| format!("requires the command {program}, which is not on PATH"))
            }
            Requirement::Env { name, value } => {
                let has = variable::get(name);
                match (has, value) {
                    (None, None) => Some(format!("requires the variable {name}")),
                    (Some(has), Some(wanted)) if has.as_os_str() == wanted.as_str() => None,
                    (_, Some(wanted)) => Some(format!("requires {name}={wanted}")),
                    (Some(_), None) => None,
                }
            }
            Requirement::File(file) => {
                let file = self.dir.join(file);
                (!file.exists()).then(|| format!("requires the file {}", file.display()))
            }
            Requirement::PythonModule { name, version } => self.lacks_module(name, version.as_ref()),
            Requirement::Cpus(wanted) => {
                let has = machine::cpus();
                (has < *wanted).then(|| format!("requires {wanted} CPUs (there are {has})"))
            }
            Requirement::Memory(wanted) => {
                let has = machine::memory().unwrap_or(u64::MAX);
                let describe = machine::describe;
                (has < *wanted)
                    .then(|| format!("requires {} of memory (there are {})", describe(*wanted), describe(has)))
            }
            Requirement::Shm(wanted) => {
                let has = machine::shm();
                let describe = machine::describe;
                (has < *wanted)
                    .then(|| format!("requires {} free in /dev/shm (there are {})", describe(*wanted), describe(has)))
            }
            Requirement::Not(inner) => {
                self.lacks(inner).is_none().then(|| format!("not for a machine with {}", describe(inner)))
            }
            Requirement::Any(all) => {
                all.iter().all(|one| self.lacks(one).is_some()).then(|| format!("requires {}", describe(requirement)))
            }
            Requirement::All(all) => all.iter().find_map(|one| self.lacks(one)),
        }
    }

    fn lacks_module(&self, name: &str, range: Option<&Range>) -> Option<String> {
        let Some((program, modules)) = self.modules? else {
            return Some(format!("requires the Python module {name}, and there is no Python"));
        };
        let wanted = range.map(|range| format!(" {range}")).unwrap_or_default();
        match (modules.get(name).and_then(Option::as_ref), range) {
            (None, _) => Some(format!("requires the Python module {name}{wanted}, which {} lacks", program.display())),
            (Some(_), None) => None,
            (Some(has), Some(range)) => match has.parse::<Version>() {
                Ok(version) if range.holds(&version) => None,
                Ok(_) => Some(format!("requires the Python module {name}{wanted} (there is {has})")),
                Err(_) => Some(format!("requires the Python module {name}{wanted}, whose version is unknown")),
            },
        }
    }
}

/// "the command gcc".
fn describe(requirement: &Requirement) -> String {
    match requirement {
        Requirement::Platform(name) => format!("platform {name}"),
        Requirement::Command(name) => format!("the command {name}"),
        Requirement::Env { name, value: None } => format!("the variable {name}"),
        Requirement::Env { name, value: Some(value) } => format!("{name}={value}"),
        Requirement::File(file) => format!("the file {}", file.display()),
        Requirement::PythonModule { name, version: None } => format!("the Python module {name}"),
        Requirement::PythonModule { name, version: Some(range) } => format!("the Python module {name} {range}"),
        Requirement::Cpus(count) => format!("{count} CPUs"),
        Requirement::Memory(bytes) => format!("{} of memory", machine::describe(*bytes)),
        Requirement::Shm(bytes) => format!("{} free in /dev/shm", machine::describe(*bytes)),
        Requirement::Not(inner) => format!("not {}", describe(inner)),
        Requirement::Any(all) => all.iter().map(describe).collect::<Vec<_>>().join(" or "),
        Requirement::All(all) => all.iter().map(describe).collect::<Vec<_>>().join(" and "),
    }
}

fn on_path(program: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|directory| directory.join(program)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lacks(requirement: &Requirement) -> Option<String> {
        Machine { dir: Path::new("/"), modules: None }.lacks(requirement)
    }

    #[test]
    fn reasons_name_what_is_missing() {
        assert_eq!(lacks(&Requirement::Command("sh".into())), None);
        let missing = Requirement::Command("no-such-program".into());
        assert_eq!(lacks(&missing).unwrap(), "requires the command no-such-program, which is not on PATH");
        let plan9 = lacks(&Requirement::Platform("plan9".into())).unwrap();
        assert_eq!(plan9.split(" (").next(), Some("requires platform plan9"));
        assert_eq!(lacks(&Requirement::Platform(env::consts::OS.into())), None);
        assert_eq!(lacks(&Requirement::File("no/such".into())).unwrap(), "requires the file /no/such");
        let path = |value: Option<&str>| Requirement::Env { name: "PATH".into(), value: value.map(str::to_owned) };
        assert_eq!(lacks(&path(None)), None);
        assert_eq!(lacks(&path(Some("x"))).unwrap(), "requires PATH=x");
        assert_eq!(lacks(&Requirement::Cpus(1)), None);
        assert!(lacks(&Requirement::Memory(u64::MAX)).unwrap().starts_with("requires 16777216 TiB of memory (there"));
    }

    #[test]
    fn predicates_combine() {
        let (sh, none) = (Requirement::Command("sh".into()), Requirement::Command("no-such".into()));
        assert_eq!(lacks(&Requirement::Not(Box::new(none.clone()))), None);
        let not = Requirement::Not(Box::new(sh.clone()));
        assert_eq!(lacks(&not).unwrap(), "not for a machine with the command sh");
        assert_eq!(lacks(&Requirement::Any(vec![none.clone(), sh.clone()])), None);
        let any = Requirement::Any(vec![none.clone(), not]);
        assert_eq!(lacks(&any).unwrap(), "requires the command no-such or not the command sh");
        assert_eq!(
            lacks(&Requirement::All(vec![sh, none])).unwrap().split(',').next(),
            Some("requires the command no-such")
        );
    }

    #[test]
    fn modules_have_versions() {
        let case = |range: Option<&str>| Case {
            requires: vec![Requirement::PythonModule {
                name: "torch".into(),
                version: range.map(|range| Range::parse(range).unwrap()),
            }],
            ..Case::default()
        };
        let program = Path::new("/p");
        let has = |version: Option<&str>| Modules::from([("torch".to_owned(), version.map(str::to_owned))]);
        let unmet_with = |range, modules: &Modules| unmet_by_python(&case(range), Some((program, modules)));
        assert_eq!(unmet_with(Some(">=2.6"), &has(Some("2.15.0+cpu"))), None);
        let old = unmet_with(Some(">=2.6"), &has(Some("2.5.1"))).unwrap();
        assert_eq!(old, "requires the Python module torch >=2.6 (there is 2.5.1)");
        assert_eq!(unmet_with(None, &has(None)).unwrap(), "requires the Python module torch, which /p lacks");
        assert!(unmet_with(Some("1"), &has(Some(""))).unwrap().contains("is unknown"));
        assert_eq!(unmet(&case(None)), None, "that is for the executor to ask");
        assert!(unmet_by_python(&case(None), None).unwrap().contains("no Python"));
    }
}
