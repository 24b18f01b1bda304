//! `ftest doctor --package NAME`: which GPUs the kernels of an installed package have PTX for, which is what ftest executes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use device_code::library::{self, Library};
use protocol::profile::{self, GpuProfile, ProfileStatus};
use runner::execute::launch::environment;
use runner::execute::python;
use runner::host::output;
use runner::verdict::exit_code::ExitCode;

/// Prints the version of the distribution and the files that may be libraries, each ended by a NUL.
const QUESTION: &str = "\
import importlib.metadata as metadata, sys
try:
    found = metadata.distribution(sys.argv[1])
except metadata.PackageNotFoundError:
    sys.exit(1)
print(found.version, end='\\0')
for file in found.files or ():
    if file.name.endswith('.so') or '.so.' in file.name:
        print(file, file.locate(), sep='\\0', end='\\0')
";

/// Reads the package `name` of the chosen interpreter, else of `python3`; prints what it has.
pub(crate) fn run(name: &str) -> ExitCode {
    match describe(name) {
        Ok(text) => {
            // A closed pipe is the reader's choice.
            let _ = output::stdout().write_all(text.as_bytes());
            ExitCode::Passed
        }
        Err(why) => {
            eprintln!("ftest doctor: {why}");
            ExitCode::CouldNotRun
        }
    }
}

fn describe(name: &str) -> Result<String, String> {
    let program = match python::chosen().map_err(|error| error.to_string())? {
        Some(chosen) => chosen.program,
        None => PathBuf::from("python3"),
    };
    let (version, files) = files(&program, name)?;
    let capabilities = capabilities();
    let asked: Vec<_> = capabilities.keys().copied().collect();
    let mut libraries = Vec::new();
    for (shown, place) in files {
        let bytes = std::fs::read(&place).map_err(|error| format!("{}: {error}", place.display()))?;
        let library = library::survey(&bytes, &asked).map_err(|why| format!("{}: {why}", place.display()))?;
        if !(library.ptx.is_empty() && library.machine.is_empty()) {
            libraries.push((shown, library));
        }
    }
    Ok(text(&format!("{name} {version}"), &libraries, &capabilities))
}

/// The version of a distribution, and its libraries as it names them, with where they are.
fn files(program: &Path, name: &str) -> Result<(String, Vec<(String, PathBuf)>), String> {
    let mut command = Command::new(program);
    environment::scrubbed(&mut command).args(["-c", QUESTION, name]);
    let answer = command.output().map_err(|error| format!("{}: {error}", program.display()))?;
    if !answer.status.success() {
        return Err(format!(
            "{} has no package `{name}`; with one that has: FTEST_PYTHON=$(ftest env path {name})/bin/python ftest doctor --package {name}",
            program.display()
        ));
    }
    let answer = String::from_utf8_lossy(&answer.stdout).into_owned();
    let mut words = answer.split('\0');
    let version = words.next().unwrap_or_default().to_owned();
    let words: Vec<&str> = words.collect();
    let files = words.chunks_exact(2).map(|pair| (pair[0].to_owned(), PathBuf::from(pair[1])));
    Ok((version, files.collect()))
}

/// Compute capabilities of the GPUs that ftest knows, each with their profiles.
fn capabilities() -> BTreeMap<(i32, i32), Vec<&'static str>> {
    let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for profile in profile::all().iter().filter(|profile| profile.status != ProfileStatus::Synthetic) {
        if let Some(capability) = capability(profile) {
            found.entry(capability).or_default().push(profile.id.as_str());
        }
    }
    found
}

fn capability(profile: &GpuProfile) -> Option<(i32, i32)> {
    let (major, minor) = profile.compute_capability.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn text(
    package: &str,
    libraries: &[(String, Library)],
    capabilities: &BTreeMap<(i32, i32), Vec<&'static str>>,
) -> String {
    let all: usize = libraries.iter().map(|(_, library)| library.kernels).sum();
    if libraries.is_empty() {
        return format!("{package}: none of its libraries has device code\n");
    }
    let mut text = format!("{package}: {all} kernels; ftest executes those that have PTX for the GPU\n\n");
    text.push_str("| library | kernels | PTX for | machine code for |\n|---|---|---|---|\n");
    for (name, library) in libraries {
        let list = |of: &std::collections::BTreeSet<u32>| {
            let words: Vec<String> = of.iter().map(|one| format!("{}.{}", one / 10, one % 10)).collect();
            if words.is_empty() { "-".to_owned() } else { words.join(" ") }
        };
        let _ =
            writeln!(text, "| {name} | {} | {} | {} |", library.kernels, list(&library.ptx), list(&library.machine));
    }
    text.push_str("\n| compute capability | profiles | kernels with PTX |\n|---|---|---|\n");
    let mut best = 0;
    for (capability, profiles) in capabilities {
        let runs = libraries.iter().filter_map(|(_, library)| library.runs.get(capability)).sum();
        best = best.max(runs);
        let shown = profiles.iter().take(3).copied().collect::<Vec<_>>().join(", ");
        let more = if profiles.len() > 3 { ", ..." } else { "" };
        let _ = writeln!(text, "| {}.{} | {shown}{more} | {runs} of {all} |", capability.0, capability.1);
    }
    if best < all {
        text.push_str(
            "\nThe others are gaps when they are launched (`ftest docs gaps`), but PyTorch's own operators need no kernel. A build with \
             PTX has them: TORCH_CUDA_ARCH_LIST=\"8.0+PTX\" for extensions of PyTorch, `-gencode arch=compute_80,code=compute_80` \
             for nvcc.\n",
        );
    }
    text
}
