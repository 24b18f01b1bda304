//! Bytecode of an environment. uv links the files of a wheel into every environment that uses it; bytecode that one
//! environment has compiled for them is linked into the next one as well.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Links into `environment` the bytecode that `others` have compiled for files they share with it. Where that fails,
/// Python compiles; Python never uses bytecode whose source has a different size or time.
pub(super) fn share(environment: &Path, others: &[PathBuf]) {
    let mut directories = vec![PathBuf::new()];
    while let Some(directory) = directories.pop() {
        let own = environment.join("lib").join(&directory);
        for other in others {
            share_one(&own, &other.join("lib").join(&directory));
        }
        for entry in fs::read_dir(&own).into_iter().flatten().flatten() {
            // Does not follow links: an environment ends at its own files.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) && entry.file_name() != "__pycache__" {
                directories.push(directory.join(entry.file_name()));
            }
        }
    }
}

/// The same for one directory of both.
fn share_one(own: &Path, other: &Path) {
    for entry in fs::read_dir(other.join("__pycache__")).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(source) = source_of(&name) else { continue };
        if is_one_file(&own.join(&source), &other.join(&source)) {
            let cache = own.join("__pycache__");
            // Either may exist already.
            let _ = fs::create_dir(&cache);
            let _ = fs::hard_link(entry.path(), cache.join(&name));
        }
    }
}

/// `functional.py` for `functional.cpython-311.pyc`.
fn source_of(compiled: &OsStr) -> Option<String> {
    let (module, _interpreter) = compiled.to_str()?.strip_suffix(".pyc")?.rsplit_once('.')?;
    Some(format!("{module}.py"))
}

fn is_one_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| fs::symlink_metadata(path).ok().map(|of| (of.dev(), of.ino()));
    identity(one).is_some_and(|it| identity(other) == Some(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An environment with a package of these files.
    fn environment(home: &Path, name: &str, files: &[&str]) -> PathBuf {
        let package = home.join(name).join("lib/python3.11/site-packages/package");
        fs::create_dir_all(&package).unwrap();
        for file in files {
            fs::write(package.join(file), name).unwrap();
        }
        package
    }

    fn compile(package: &Path, name: &str) {
        fs::create_dir_all(package.join("__pycache__")).unwrap();
        fs::write(package.join("__pycache__").join(name), "bytecode").unwrap();
    }

    #[test]
    fn bytecode_of_shared_files_comes_from_another_environment() {
        let home = tempfile::tempdir().unwrap();
        let done = environment(home.path(), "done", &["shared.py", "own.py"]);
        let new = environment(home.path(), "new", &["own.py"]);
        fs::hard_link(done.join("shared.py"), new.join("shared.py")).unwrap();
        for name in ["shared.cpython-311.pyc", "own.cpython-311.pyc", "gone.cpython-311.pyc"] {
            compile(&done, name);
        }

        share(&home.path().join("new"), &[home.path().join("empty"), home.path().join("done")]);
        let linked = fs::read_dir(new.join("__pycache__")).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(linked.collect::<Vec<_>>(), ["shared.cpython-311.pyc"]);
        let name = "__pycache__/shared.cpython-311.pyc";
        assert!(is_one_file(&done.join(name), &new.join(name)));
    }

    #[test]
    fn bytecode_belongs_to_the_source_of_its_name() {
        assert_eq!(source_of("functional.cpython-311.pyc".as_ref()).unwrap(), "functional.py");
        assert_eq!(source_of("a.b.cpython-311.pyc".as_ref()).unwrap(), "a.b.py");
        assert_eq!(source_of("functional.py".as_ref()), None);
    }
}
