//! Whether this machine has what a case requires. What only the case's Python can tell is asked by the executor.

use std::env;
use std::path::{Path, PathBuf};

use crate::case::{Case, Requirement};

/// The first unmet requirement of `case`, as the reason for skipping it.
pub fn unmet(case: &Case) -> Option<String> {
    case.requires.iter().find_map(|requirement| reason(requirement, &case.dir))
}

fn reason(requirement: &Requirement, dir: &Path) -> Option<String> {
    match requirement {
        Requirement::Platform(wanted) => {
            let here = [env::consts::OS.to_owned(), format!("{}-{}", env::consts::OS, env::consts::ARCH)];
            (!here.contains(wanted)).then(|| format!("requires platform {wanted} (this is {})", here[1]))
        }
        Requirement::Command(program) => {
            on_path(program).is_none().then(|| format!("requires the command {program}, which is not on PATH"))
        }
        Requirement::Env { name, value } => {
            let has = env::var_os(name).filter(|has| !has.is_empty());
            match (has, value) {
                (None, None) => Some(format!("requires the variable {name}")),
                (Some(has), Some(wanted)) if has.as_os_str() == wanted.as_str() => None,
                (_, Some(wanted)) => Some(format!("requires {name}={wanted}")),
                (Some(_), None) => None,
            }
        }
        Requirement::File(file) => {
            let file = dir.join(file);
            (!file.exists()).then(|| format!("requires the file {}", file.display()))
        }
        Requirement::PythonModule(_) => None,
    }
}

fn on_path(program: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|directory| directory.join(program)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_name_what_is_missing() {
        let dir = Path::new("/");
        assert_eq!(reason(&Requirement::Command("sh".into()), dir), None);
        assert_eq!(
            reason(&Requirement::Command("no-such-program".into()), dir).unwrap(),
            "requires the command no-such-program, which is not on PATH"
        );
        assert_eq!(
            reason(&Requirement::Platform("plan9".into()), dir).unwrap().split(" (").next(),
            Some("requires platform plan9")
        );
        assert_eq!(reason(&Requirement::Platform(env::consts::OS.into()), dir), None);
        assert_eq!(reason(&Requirement::File("no/such".into()), dir).unwrap(), "requires the file /no/such");
        let path = |value: Option<&str>| Requirement::Env { name: "PATH".into(), value: value.map(str::to_owned) };
        assert_eq!(reason(&path(None), dir), None);
        assert_eq!(reason(&path(Some("x")), dir).unwrap(), "requires PATH=x");
    }
}
