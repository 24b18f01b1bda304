//! Where the parts of an installation are: shim, coordinator, `ftest` itself, suites. Nothing is looked up twice, and a
//! missing part is reported with every place that was tried.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::host::{surroundings, variable};

/// This version; for a release, with its commit.
pub const VERSION: &str = match option_env!("FTEST_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

const SHIM: &str = "libfakegpu.so";
const PROXY: &str = "libfakegpu_nccl.so";
const HYBRID: &str = "libfakegpu_cuda.so";
const DATE: &str = "libfakegpu_date.so";

/// A part of the installation is missing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// It was not found anywhere.
    #[error(
        "{what} not found; looked for {}; {} names the installation. `cargo install` installs only ftest and fgpu: in a \
         checkout, `packaging/install PREFIX` installs all parts, or run `cargo build --release` and set {}=CHECKOUT",
        list(.tried), protocol::env::HOME.name, protocol::env::HOME.name
    )]
    Part {
        /// Description of what was looked for.
        what: &'static str,
        /// Every place that was tried, in order.
        tried: Vec<PathBuf>,
    },
    /// The running program cannot be found: why, and what to do.
    #[error("{0}")]
    Program(String),
    /// The user named an installation that does not exist. Using another one instead would be a surprise.
    #[error("{}={}: no such directory; it names the installation: unset it, or correct it", protocol::env::HOME.name, .0.display())]
    Home(PathBuf),
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// The places where parts may be.
///
/// Three layouts are known: installed (`bin/`, `lib/`, `share/ftest/`), a build directory (everything beside the binary), and
/// a checkout named by `FTEST_HOME` (`suites/`, `profiles/`, and the build output in `target/release` for a program that was
/// installed alone).
#[derive(Clone, Debug)]
pub struct Install {
    homes: Vec<PathBuf>,
    binaries: Vec<PathBuf>,
    /// The value of `FTEST_HOME` if there is no such directory, or why there is nothing around the program.
    wrong: Option<Missing>,
}

impl Install {
    /// The installation that the running program belongs to, or the one `FTEST_HOME` names.
    pub fn find() -> Install {
        let home = variable::get(protocol::env::HOME.name);
        match std::env::current_exe().and_then(std::fs::canonicalize) {
            Ok(program) => Install::around(home, &program),
            Err(error) => {
                let install = Install::around(home, Path::new(""));
                let why = || format!("the path of the running program is unknown: {error}");
                let wrong = Missing::Program(surroundings::no_proc().unwrap_or_else(why));
                Install { wrong: install.wrong.or(Some(wrong)), ..install }
            }
        }
    }

    /// The installation around `program`; `home` takes precedence.
    pub fn around(home: Option<OsString>, program: &Path) -> Install {
        // Programs of a case run in other directories.
        let home = home.map(PathBuf::from).map(|home| std::path::absolute(&home).unwrap_or(home));
        let wrong = home.clone().filter(|home| !home.is_dir()).map(Missing::Home);
        let given = home.clone();
        let mut homes: Vec<PathBuf> = home.into_iter().collect();
        let mut binaries: Vec<PathBuf> = homes.iter().map(|home| home.join("bin")).collect();
        if let Some(beside) = program.parent() {
            binaries.push(beside.to_owned());
            // Test programs are one level below the build directory, which is two below the checkout.
            if beside.ends_with("deps") || beside.ends_with("examples") {
                binaries.extend(beside.parent().map(Path::to_owned));
            }
            homes.extend(beside.ancestors().skip(1).take(3).map(Path::to_owned));
        }
        // Parts built beside the program are as new as the program; these may be older.
        if !binaries.iter().any(|place| place.join(SHIM).exists()) {
            binaries.extend(given.map(|home| home.join("target/release")));
        }
        Install { homes, binaries, wrong }
    }

    /// `libfakegpu.so`.
    ///
    /// # Errors
    /// [`Missing`].
    pub fn shim(&self) -> Result<PathBuf, Missing> {
        self.library("the shim", SHIM)
    }

    /// `libfakegpu_nccl.so`, which forwards to the real NCCL.
    ///
    /// # Errors
    /// [`Missing`].
    pub fn proxy(&self) -> Result<PathBuf, Missing> {
        self.library("the proxy of NCCL", PROXY)
    }

    /// `libfakegpu_cuda.so`, which is loaded before the real libcuda.
    ///
    /// # Errors
    /// [`Missing`].
    pub fn hybrid(&self) -> Result<PathBuf, Missing> {
        self.library("the library of mode hybrid", HYBRID)
    }

    /// `libfakegpu_date.so`, for the relation `clock`.
    ///
    /// # Errors
    /// [`Missing`].
    pub fn other_date(&self) -> Result<PathBuf, Missing> {
        self.library("the library of the relation `clock`", DATE)
    }

    fn library(&self, what: &'static str, name: &str) -> Result<PathBuf, Missing> {
        let libraries = self.homes.iter().flat_map(|home| [home.join("lib"), home.join("lib/ftest")]);
        // `cargo test` on a fresh checkout leaves libraries in `deps` alone.
        let built = self.binaries.iter().flat_map(|place| [place.clone(), place.join("deps")]);
        self.first(what, libraries.chain(built).map(|place| place.join(name)))
    }

    /// `fakegpu-coordinator`.
    ///
    /// # Errors
    /// [`Missing`].
    pub fn coordinator(&self) -> Result<PathBuf, Missing> {
        self.binary("the coordinator", "fakegpu-coordinator")
    }

    /// `fakegpu-ptxas`, which Triton runs.
    ///
    /// # Errors
    /// [`Missing`].
    pub fn assembler(&self) -> Result<PathBuf, Missing> {
        self.binary("the assembler", "fakegpu-ptxas")
    }

    /// `fakegpu-smi`, which processes find as `nvidia-smi`.
    ///
    /// # Errors
    /// [`Missing`].
    pub fn smi(&self) -> Result<PathBuf, Missing> {
        self.binary("nvidia-smi", "fakegpu-smi")
    }

    /// The program of `ftest bench`.
    ///
    /// # Errors
    /// [`Missing`].
    pub fn bench(&self) -> Result<PathBuf, Missing> {
        self.binary("the program of ftest bench", "fixture-bench")
    }

    /// `ftest`, which is also the guard of a run.
    ///
    /// # Errors
    /// [`Missing`].
    pub fn ftest(&self) -> Result<PathBuf, Missing> {
        self.binary("ftest", "ftest")
    }

    /// The directory of the suites that come with ftest.
    ///
    /// # Errors
    /// [`Missing`].
    pub fn suites(&self) -> Result<PathBuf, Missing> {
        let places = self.homes.iter().flat_map(|home| [home.join("share/ftest/suites"), home.join("suites")]);
        self.first("the directory of suites", places)
    }

    /// The directory of the documentation.
    ///
    /// # Errors
    /// [`Missing`].
    pub fn docs(&self) -> Result<PathBuf, Missing> {
        // Other things have a directory `docs`, too.
        let places = self.homes.iter().flat_map(|home| [home.join("share/ftest/docs"), home.join("docs")]);
        let page = self.first("the documentation", places.map(|place| place.join("findings.md")))?;
        Ok(page.parent().unwrap_or(&page).to_owned())
    }

    /// The directory with the Python package in a checkout. The wheel installs it where its Python finds it.
    pub fn python(&self) -> Option<PathBuf> {
        self.homes.iter().map(|home| home.join("python")).find(|place| place.join("ftest/pytest").is_dir())
    }

    /// The directories with our programs, including the native fixtures.
    pub fn binary_directories(&self) -> impl Iterator<Item = &Path> {
        self.binaries.iter().map(PathBuf::as_path)
    }

    fn binary(&self, what: &'static str, name: &str) -> Result<PathBuf, Missing> {
        self.first(what, self.binaries.iter().map(|place| place.join(name)))
    }

    fn first(&self, what: &'static str, places: impl Iterator<Item = PathBuf>) -> Result<PathBuf, Missing> {
        if let Some(wrong) = &self.wrong {
            return Err(wrong.clone());
        }
        let mut tried = Vec::new();
        for place in places {
            if place.exists() {
                return Ok(place);
            }
            tried.push(place);
        }
        Err(Missing::Part { what, tried })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(root: &Path, paths: &[&str]) {
        for path in paths {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
    }

    #[test]
    fn an_installed_tree_is_found_from_its_binary() {
        let root = tempfile::tempdir().unwrap();
        touch(root.path(), &["bin/ftest", "bin/fakegpu-coordinator", "lib/libfakegpu.so", "share/ftest/suites/a.yaml"]);
        let install = Install::around(None, &root.path().join("bin/ftest"));
        assert_eq!(install.shim().unwrap(), root.path().join("lib/libfakegpu.so"));
        assert_eq!(install.coordinator().unwrap(), root.path().join("bin/fakegpu-coordinator"));
        assert_eq!(install.suites().unwrap(), root.path().join("share/ftest/suites"));
    }

    #[test]
    fn a_build_directory_is_found_from_a_test_program_and_the_home_comes_first() {
        let root = tempfile::tempdir().unwrap();
        touch(
            root.path(),
            &["target/debug/libfakegpu.so", "target/debug/ftest", "suites/a.yaml", "home/lib/libfakegpu.so"],
        );
        let program = root.path().join("target/debug/deps/suites-1234");
        assert_eq!(Install::around(None, &program).shim().unwrap(), root.path().join("target/debug/libfakegpu.so"));
        assert_eq!(Install::around(None, &program).suites().unwrap(), root.path().join("suites"));
        let home = root.path().join("home").into_os_string();
        assert_eq!(Install::around(Some(home), &program).shim().unwrap(), root.path().join("home/lib/libfakegpu.so"));
    }

    #[test]
    fn a_library_that_only_the_tests_have_built_is_found() {
        let root = tempfile::tempdir().unwrap();
        touch(root.path(), &["target/debug/deps/libfakegpu.so", "target/debug/ftest"]);
        let program = root.path().join("target/debug/ftest");
        assert_eq!(
            Install::around(None, &program).shim().unwrap(),
            root.path().join("target/debug/deps/libfakegpu.so")
        );
        touch(root.path(), &["target/debug/libfakegpu.so"]);
        assert_eq!(Install::around(None, &program).shim().unwrap(), root.path().join("target/debug/libfakegpu.so"));
    }

    #[test]
    fn a_program_that_was_installed_alone_finds_what_is_built_in_the_checkout() {
        let root = tempfile::tempdir().unwrap();
        touch(
            root.path(),
            &[
                "alone/bin/ftest",
                "checkout/target/release/libfakegpu.so",
                "checkout/target/release/fakegpu-coordinator",
                "checkout/suites/a.yaml",
                "elsewhere/release/ftest",
                "elsewhere/release/libfakegpu.so",
            ],
        );
        let home = || Some(root.path().join("checkout").into_os_string());
        let alone = Install::around(home(), &root.path().join("alone/bin/ftest"));
        let built = root.path().join("checkout/target/release");
        assert_eq!(alone.shim().unwrap(), built.join("libfakegpu.so"));
        assert_eq!(alone.coordinator().unwrap(), built.join("fakegpu-coordinator"));
        assert_eq!(alone.suites().unwrap(), root.path().join("checkout/suites"));
        // If the target directory is elsewhere, files left in the checkout by an earlier build do not count.
        let whole = Install::around(home(), &root.path().join("elsewhere/release/ftest"));
        assert_eq!(whole.shim().unwrap(), root.path().join("elsewhere/release/libfakegpu.so"));
        assert!(!whole.binary_directories().any(|place| place == built));
    }

    #[test]
    fn what_is_missing_is_named_with_every_place() {
        let error = Install::around(None, Path::new("/nowhere/bin/ftest")).coordinator().unwrap_err();
        let tried = vec![PathBuf::from("/nowhere/bin/fakegpu-coordinator")];
        assert_eq!(error, Missing::Part { what: "the coordinator", tried });
        assert!(
            error.to_string().starts_with("the coordinator not found; looked for /nowhere/bin/fakegpu-coordinator")
        );
    }
}
