//! Messages of a managed environment about what it lacks: pip, and NVIDIA's libraries outside ftest.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::host::whole_file;

const MODULE: &str = "_ftest_hint.py";
/// A file that Python reads at every start.
const START: (&str, &str) = ("_ftest_hint.pth", "import _ftest_hint\n");
const SCRIPT: &str = "#!/bin/sh\nexec \"$(dirname \"$0\")/python\" -m pip \"$@\"\n";

/// Puts the hints into the environment in `directory`, made for `requirements`, unless they exist. A real pip is kept.
/// An environment that cannot be written to gets no hints.
pub(super) fn put(directory: &Path, requirements: &[String]) {
    for site in sites(directory) {
        let _ = write(&site.join(MODULE), include_str!("_ftest_hint.py"));
        let _ = write(&site.join(START.0), START.1);
        if site.join("pip").exists() {
            continue;
        }
        let text = include_str!("pip.py").replace("{requirements}", &requirements.join(" "));
        let _ = write(&site.join("pip.py"), &text.replace("{listed}", &requirements.join(", ")));
        for name in ["pip", "pip3"] {
            let script = directory.join("bin").join(name);
            if !script.exists() && write(&script, SCRIPT).is_ok() {
                let _ = fs::set_permissions(&script, fs::Permissions::from_mode(0o755));
            }
        }
    }
}

/// `lib/pythonX.Y/site-packages` of each Python in the environment.
fn sites(directory: &Path) -> Vec<std::path::PathBuf> {
    let versions = fs::read_dir(directory.join("lib")).into_iter().flatten().flatten();
    versions.map(|version| version.path().join("site-packages")).filter(|site| site.is_dir()).collect()
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if fs::read(path).is_ok_and(|there| there == text.as_bytes()) {
        return Ok(());
    }
    whole_file::replace(path, &[text.as_bytes()])
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// An environment with a `torch` that needs missing libraries.
    fn environment() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let made = Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(directory.path()).status();
        assert!(made.expect("python3, which PyTorch needs, runs").success());
        let site = sites(directory.path()).remove(0);
        fs::create_dir(site.join("torch")).unwrap();
        let fails = "import os\nif 'WHOLE' not in os.environ:\n    raise OSError('libcudart.so.13: cannot open shared object file')\nversion = 1\n";
        fs::write(site.join("torch/__init__.py"), fails).unwrap();
        put(directory.path(), &["numpy".to_owned(), "torch==2.15.0".to_owned()]);
        directory
    }

    fn python(directory: &Path, words: &[&str], variables: &[(&str, &str)]) -> (bool, String) {
        let mut command = Command::new(directory.join("bin").join(words[0]));
        let output =
            command.args(&words[1..]).env_remove("LD_PRELOAD").envs(variables.iter().copied()).output().unwrap();
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        (output.status.success(), text.concat())
    }

    #[test]
    fn an_import_of_torch_that_fails_says_why_and_only_then() {
        let directory = environment();
        let run = |code: &str, variables: &[(&str, &str)]| python(directory.path(), &["python", "-c", code], variables);
        let hint = "Run the program as `fgpu python ...`";
        let (ok, text) = run("import torch", &[]);
        assert!(!ok && text.contains("OSError: libcudart.so.13") && text.contains(hint), "{text}");
        // Also if other code prints it.
        let (ok, text) = run("import traceback\ntry: import torch\nexcept OSError: traceback.print_exc()", &[]);
        assert!(ok && text.contains(hint), "{text}");
        let (ok, text) = run("import torch, json; print(torch.version)", &[("WHOLE", "1")]);
        assert_eq!((ok, text.as_str()), (true, "1\n"));
        let found = "import importlib.util, sys; print(importlib.util.find_spec('torch').name)";
        assert_eq!(run(found, &[]), (true, "torch\n".to_owned()));
        // Under the shim nothing is changed. (The loader skips a missing library.)
        let shim = [("LD_PRELOAD", "/nowhere/libfakegpu.so")];
        let (ok, text) = run("import sys; print(any('ftest' in str(f) for f in sys.meta_path)); import torch", &shim);
        assert!(!ok && text.contains("False\n") && text.contains("libcudart.so.13") && !text.contains(hint), "{text}");
    }

    #[test]
    fn pip_says_what_to_do_instead() {
        let directory = environment();
        for words in [&["pip", "install", "x"][..], &["pip3", "list"], &["python", "-m", "pip", "list"]] {
            let (ok, text) = python(directory.path(), words, &[]);
            assert!(!ok, "{words:?}");
            assert!(text.contains("python: [numpy, torch==2.15.0, PACKAGE]"), "{words:?}: {text}");
            assert!(text.contains("`ftest env path numpy torch==2.15.0 PACKAGE`"), "{words:?}: {text}");
        }
        let (ok, text) = python(directory.path(), &["python", "-c", "import pip"], &[]);
        assert!(!ok && text.contains("No module named 'pip': this Python environment is managed by ftest"), "{text}");
        // A real one stays, and comes first.
        let site = sites(directory.path()).remove(0);
        fs::create_dir(site.join("pip")).unwrap();
        fs::write(site.join("pip/__init__.py"), "").unwrap();
        fs::write(site.join("pip/__main__.py"), "print('real')").unwrap();
        put(directory.path(), &[]);
        assert_eq!(python(directory.path(), &["pip", "list"], &[]), (true, "real\n".to_owned()));
    }
}
