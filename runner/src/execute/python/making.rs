//! How an environment is made: first an empty one, then the lean packages without their dependencies, then everything
//! else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::bytecode;
use super::error::Error;
use super::left_out::{Installed, excluded};
use super::progress::Said;
use super::requirement;
use super::step::{self, run, step};
use super::tools::Tools;
use crate::case::python::{COMPILER, package};
use crate::host::whole_file;

/// Where an environment is made.
pub(super) struct Site<'a> {
    pub(super) directory: &'a Path,
    pub(super) wheels: PathBuf,
    /// Environments that exist already.
    pub(super) others: Vec<PathBuf>,
    /// The mark that its tools carry, unless empty.
    pub(super) mark: &'a str,
}

impl Site<'_> {
    fn command(&self, tools: &Tools, program: &Path, arguments: &[String]) -> Command {
        let mut command = step::command(program, arguments);
        if !self.mark.is_empty() {
            command.env(protocol::env::COOKIE.name, self.mark);
        }
        if let Tools::Uv { settings, .. } = tools {
            if std::env::var_os("UV_CACHE_DIR").is_none() {
                command.env("UV_CACHE_DIR", &self.wheels);
            }
            // At the end, see `compile`.
            command.env("UV_COMPILE_BYTECODE", "0");
            command.envs(settings.iter().map(|(name, value)| (name, value)));
        }
        command
    }

    fn interpreter(&self) -> PathBuf {
        self.directory.join("bin/python")
    }

    /// Compiles what uv installed, except what another environment has compiled; pip compiles by itself.
    fn compile(&self, tools: &Tools) {
        if let Tools::Pip { .. } = tools {
            return;
        }
        bytecode::share(self.directory, &self.others);
        // As pip does: validated by the time of the source, not by its content, which every start would have to read.
        let words = ["-m", "compileall", "-qq", "-j", "0", "--invalidation-mode", "timestamp"];
        let library = self.directory.join("lib").display().to_string();
        let arguments: Vec<String> = words.iter().copied().chain([library.as_str()]).map(str::to_owned).collect();
        // Packages contain files that Python cannot compile, such as templates; nobody imports these.
        let _ = step("compiling", self.command(tools, &self.interpreter(), &arguments), &|_| {});
    }

    /// Makes it empty. Returns the command line that installs into it, without the packages.
    fn empty(&self, tools: &Tools, announce: &dyn Fn(Said<'_>)) -> Result<Vec<String>, Error> {
        let (place, inside) = (self.directory.display().to_string(), self.interpreter().display().to_string());
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        match tools {
            Tools::Uv { uv, python, .. } => {
                let mut arguments = words(&["venv", "--quiet", &place]);
                if let Some(python) = python {
                    arguments.extend(["--python".to_owned(), python.display().to_string()]);
                }
                step("uv venv", self.command(tools, uv, &arguments), announce)?;
                Ok(words(&[&uv.display().to_string(), "pip", "install", "--python", &inside]))
            }
            Tools::Pip { python } => {
                let base = python.display().to_string();
                // The base's pip can install into the environment: that saves copying pip into it.
                let from_outside = run(python, &["-m", "pip", "--python", &base, "--version"]).is_ok();
                let mut arguments = words(&["-m", "venv"]);
                arguments.extend(from_outside.then(|| "--without-pip".to_owned()));
                arguments.push(place);
                step("python3 -m venv", self.command(tools, python, &arguments), announce)?;
                let quiet = ["--disable-pip-version-check", "--no-warn-conflicts", "--no-input", "--progress-bar=off"];
                let start = match from_outside {
                    true => words(&[&base, "-m", "pip", "--python", &inside, "install"]),
                    false => words(&[&inside, "-m", "pip", "install"]),
                };
                Ok([start, words(&quiet)].concat())
            }
        }
    }
}

/// Requirements by how they are installed.
struct Wanted {
    /// Options of an installer: `--extra-index-url URL`.
    options: Vec<String>,
    /// Constraints: `numpy<2`.
    limits: Vec<String>,
    /// Installed without their dependencies.
    lean: Vec<String>,
    rest: Vec<String>,
}

impl Wanted {
    fn parse(requirements: &[String]) -> Wanted {
        let mut wanted = Wanted { options: Vec::new(), limits: Vec::new(), lean: Vec::new(), rest: Vec::new() };
        for line in requirements {
            match line.strip_prefix("-c ") {
                Some(limit) => wanted.limits.push(limit.to_owned()),
                None if line.starts_with("--") => wanted.options.push(line.clone()),
                None if requirement::is_lean(line) => wanted.lean.push(line.clone()),
                None => wanted.rest.push(line.clone()),
            }
        }
        wanted
    }

    /// Whether the rest pins every file by hash: then it is complete, and no file may be added.
    fn is_locked(&self) -> bool {
        self.rest.iter().any(|line| line.contains(" --hash="))
    }
}

/// The command that installs what some files list.
struct Installer<'a> {
    site: &'a Site<'a>,
    tools: &'a Tools,
    /// Its start.
    words: Vec<String>,
    options: Vec<String>,
}

impl Installer<'_> {
    /// Runs a command of its own.
    fn run(&self, step: &str, command: Command, announce: &dyn Fn(Said<'_>)) -> Result<(), Error> {
        let run = if let Tools::Uv { .. } = self.tools { step::step_of_uv } else { step::step };
        run(step, command, announce).map(drop)
    }

    /// Installs requirements from a file, which can have options and hashes, and any length.
    fn command(&self, file: &str, flags: &[&str], what: &[String]) -> Result<Command, Error> {
        let file = self.write(file, &[self.options.as_slice(), what].concat())?;
        let mut arguments = self.words[1..].to_vec();
        arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
        arguments.extend(["-r".to_owned(), file]);
        Ok(self.site.command(self.tools, Path::new(&self.words[0]), &arguments))
    }

    fn write(&self, name: &str, lines: &[String]) -> Result<String, Error> {
        let place = self.site.directory.join(name);
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(&place, text).map_err(|source| Error::Cache { place: place.clone(), source })?;
        Ok(place.display().to_string())
    }
}

/// Makes an environment with `requirements`. Returns the packages that it lacks on purpose.
///
/// # Errors
/// [`Error`]: what failed.
pub(super) fn make(
    tools: &Tools,
    site: &Site<'_>,
    requirements: &[String],
    announce: &dyn Fn(Said<'_>),
) -> Result<Vec<String>, Error> {
    let left_out = install(tools, site, requirements, announce)?;
    if let Tools::Uv { .. } = tools {
        announce(Said::Step("compiling the installed modules"));
    }
    site.compile(tools);
    Ok(left_out)
}

fn install(
    tools: &Tools,
    site: &Site<'_>,
    requirements: &[String],
    announce: &dyn Fn(Said<'_>),
) -> Result<Vec<String>, Error> {
    let mut wanted = Wanted::parse(requirements);
    let words = site.empty(tools, announce)?;
    let mut installer = Installer { site, tools, words, options: std::mem::take(&mut wanted.options) };
    if !wanted.limits.is_empty() {
        let limits = installer.write("constraints.txt", &wanted.limits)?;
        installer.words.extend(["-c".to_owned(), limits]);
    }
    let excludes = matches!(tools, Tools::Uv { uv, .. }
        if run(uv, &["pip", "install", "--help"]).is_ok_and(|help| help.contains("--excludes")));
    if excludes {
        // No matter what requires them: a package that nobody named may require PyTorch.
        let excluded = installer.write("excluded.txt", &excluded(requirements, false))?;
        installer.words.extend(["--excludes".to_owned(), excluded]);
    }
    let mut spared = Vec::new();
    install_with(&installer, &mut wanted, &mut spared, announce)?;
    let packages = site_packages(site.directory)?;
    // No file may be added to what pins every file by hash.
    if excludes && !wanted.is_locked() && Installed::read(&packages).needs_spared() {
        let compiler: Vec<String> = spared.iter().filter(|entry| is_compiler(entry)).cloned().collect();
        // A version that the user names decides.
        if !compiler.is_empty() && !wanted.rest.iter().any(|line| is_compiler(line)) {
            let limit = installer.write("compiler.txt", &compiler)?;
            installer.words.extend(["-c".to_owned(), limit]);
        }
        installer.write("excluded.txt", &excluded(requirements, true))?;
        let command = installer.command("rest.txt", &[], &wanted.rest)?;
        installer.run("installing what another package requires, and PyTorch runs without", command, announce)?;
        forget_spared(site.directory, &mut spared)?;
    }
    Ok(Installed::read(&packages).lacks(&spared))
}

fn is_compiler(line: &str) -> bool {
    package(line) == COMPILER
}

/// Installs what is wanted; `spared` gets what is taken out of PyTorch's needs.
fn install_with(
    installer: &Installer<'_>,
    wanted: &mut Wanted,
    spared: &mut Vec<String>,
    announce: &dyn Fn(Said<'_>),
) -> Result<(), Error> {
    let Installer { site, tools, .. } = installer;
    if wanted.lean.is_empty() {
        installer.run("installing", installer.command("rest.txt", &[], &wanted.rest)?, announce)?;
        return forget_spared(site.directory, spared);
    }
    let lean = wanted.lean.join(" ");
    let first = installer.command("lean.txt", &["--no-deps"], &wanted.lean)?;
    // Because the needs are queried beforehand, they install while the large wheel is still being unpacked. Other
    // packages come after it: they find it installed, needing nothing that the shim replaces.
    let asked = match tools {
        Tools::Pip { .. } if wanted.rest.is_empty() => {
            announce(Said::Step(&format!("asking what {lean} needs")));
            let flags = ["--quiet", "--dry-run", "--ignore-installed", "--no-deps", "--report=-"];
            let question = installer.command("lean.txt", &flags, &wanted.lean)?;
            step("pip install --dry-run", question, &|_| {}).ok().and_then(|report| needs_in_report(&report))
        }
        Tools::Pip { .. } | Tools::Uv { .. } => None,
    };
    let Some(needs) = asked else {
        installer.run(&format!("installing {lean}"), first, announce)?;
        let locked = wanted.is_locked();
        for place in lean_metadata(site.directory)? {
            let metadata = fs::read_to_string(place).unwrap_or_default();
            let needs = requirement::requires_dist(&metadata);
            requirement::match_compiler(&mut wanted.rest, &needs);
            if !locked {
                wanted.rest.extend(requirement::remaining(needs));
            }
        }
        forget_spared(site.directory, spared)?;
        installer.run("installing what it needs", installer.command("rest.txt", &[], &wanted.rest)?, announce)?;
        return forget_spared(site.directory, spared);
    };
    let second = installer.command("rest.txt", &[], &needs)?;
    std::thread::scope(|scope| {
        let (sender, output) = std::sync::mpsc::channel();
        let second_sender = sender.clone();
        let work = |what: String, command: Command, sender: std::sync::mpsc::Sender<(bool, String)>| {
            move || {
                step(&what, command, &|said| {
                    let _ = sender.send(said.owned());
                })
            }
        };
        let lean = scope.spawn(work(format!("installing {lean}"), first, sender));
        let needs = scope.spawn(work("installing what it needs".to_owned(), second, second_sender));
        for (is_step, text) in output {
            announce(if is_step { Said::Step(&text) } else { Said::Amount(&text) });
        }
        let ended = |result: std::thread::Result<Result<String, Error>>| match result {
            Ok(result) => result.map(drop),
            Err(_) => Err(Error::Step {
                step: "installing".to_owned(),
                detail: "a thread died".to_owned(),
                output: String::new(),
            }),
        };
        let (lean, needs) = (lean.join(), needs.join());
        ended(lean).and_then(|()| ended(needs))
    })?;
    forget_spared(site.directory, spared)
}

/// The remaining needs of the packages that pip's installation report lists.
fn needs_in_report(report: &str) -> Option<Vec<String>> {
    let report: serde_json::Value = serde_json::from_str(report).ok()?;
    let mut needs = Vec::new();
    for package in report.get("install")?.as_array()? {
        let requires = package.get("metadata")?.get("requires_dist")?.as_array()?;
        needs.extend(requirement::remaining(requires.iter().filter_map(|entry| entry.as_str())));
    }
    Some(needs)
}

/// Where an environment has its packages.
fn site_packages(directory: &Path) -> Result<PathBuf, Error> {
    let answer = run(&directory.join("bin/python"), &["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"])?;
    Ok(PathBuf::from(answer.trim()))
}

/// The METADATA files of the lean packages that are installed.
fn lean_metadata(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let site = site_packages(directory)?;
    let is_lean = |entry: &fs::DirEntry| {
        let file = entry.file_name();
        let package = file.to_str().and_then(|file| file.strip_suffix(".dist-info"));
        package.is_some_and(|package| requirement::is_lean(package.split('-').next().unwrap_or_default()))
    };
    let entries = fs::read_dir(&site).map_err(|source| Error::Cache { place: site, source })?;
    Ok(entries.flatten().filter(is_lean).map(|entry| entry.path().join("METADATA")).collect())
}

/// Takes what the shim replaces, and what PyTorch runs without, out of the needs that the lean packages state, so that neither
/// another package's installation nor `pip check` misses it. `spared` gets it.
fn forget_spared(directory: &Path, spared: &mut Vec<String>) -> Result<(), Error> {
    for place in lean_metadata(directory)? {
        let wrong = |source| Error::Cache { place: place.clone(), source };
        let metadata = fs::read_to_string(&place).map_err(wrong)?;
        // Writes a new file: the old one may be the wheel's file, shared with other environments.
        let kept = requirement::without_spared(&metadata);
        let entries = requirement::requires_dist(&kept);
        spared.extend(
            requirement::requires_dist(&metadata)
                .into_iter()
                .filter(|entry| !entries.contains(entry))
                .map(str::to_owned),
        );
        whole_file::replace(&place, &[kept.as_bytes()]).map_err(wrong)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_are_told_apart_by_how_they_are_installed() {
        let lines = ["--extra-index-url https://x", "-c numpy<2", "-e /a[test]", "torch==2.15.0", "peft", "/b/c.whl"];
        let wanted = Wanted::parse(&lines.map(str::to_owned));
        assert_eq!(wanted.options, ["--extra-index-url https://x"]);
        assert_eq!(wanted.limits, ["numpy<2"]);
        assert_eq!(wanted.lean, ["torch==2.15.0"]);
        assert_eq!(wanted.rest, ["-e /a[test]", "peft", "/b/c.whl"]);
        assert!(!wanted.is_locked());
        assert!(Wanted::parse(&["numpy==2 --hash=sha256:a".to_owned()]).is_locked());
    }

    #[test]
    fn pips_report_gives_the_needs() {
        let report = r#"{"install": [{"metadata": {"requires_dist": ["filelock", "nvidia-nccl-cu13==2.30"]}}]}"#;
        assert_eq!(needs_in_report(report).unwrap(), ["filelock"]);
        assert_eq!(needs_in_report("{}"), None);
    }
}
