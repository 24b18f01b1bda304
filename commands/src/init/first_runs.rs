//! The first runs of a suite that was just written: again with what its program asks for, or with another program where that one cannot
//! be started, and what it lacks in the end.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use runner::host::variable;
use runner::record::store::Runs;

use super::files::{CLUSTER, Choice};
use super::missing::Asked;
use super::survey::{Program, Survey};
use super::{Written, again, choose, imports, missing, put_images};

/// Runs the suite until it passes, or nothing more can be done for it. `run` runs a suite, in a time if there is one.
pub(super) fn first_runs(
    root: &Path,
    mut written: Written,
    mut run: impl FnMut(&Path, Option<Duration>) -> i32,
) -> i32 {
    let kept = variable::get(protocol::env::RUNS.name).map(PathBuf::from);
    let runs = Runs::new(kept.as_deref());
    let suite = written.suite.clone();
    let start = Instant::now();
    // What was added last, and the suite before that.
    let mut last: Option<(String, String)> = None;
    let mut change = || {
        let Some(lack) = missing::of_run(&runs, root) else {
            let choice = as_launched(&written.choice)?;
            fs::write(root.join(CLUSTER), choice.cluster()).ok()?;
            fs::write(&suite, choice.suite()).ok()?;
            println!(
                "\nwrote {} again: on {}, as many as a command line of the repository has",
                suite.display(),
                choice.place()
            );
            last = None;
            written.choice = choice;
            return Some(());
        };
        if let Some((package, before)) = lack.asked.as_ref().and_then(|asked| add(&suite, asked, root)) {
            last = Some((package, before));
            return Some(());
        }
        let choice = other(root, &written.survey, &written.choice, &lack.module?)?;
        put_images(root, &choice).ok()?;
        fs::write(&suite, choice.suite()).ok()?;
        println!("wrote {} again: {} on {}", suite.display(), choice.command(), choice.place());
        last = None;
        written.choice = choice;
        Some(())
    };
    let (code, is_cut) = again::repeat(|| start.elapsed(), |time| run(&suite, time), || change().is_some());
    if !again::is_failure(code) {
        return code;
    }
    if let Some((package, before)) = last.filter(|_| !is_cut && !missing::has_started(&runs)) {
        if fs::write(&suite, before).is_ok() {
            println!("\ntook `{package}` out of {} again: with it, nothing could be started", suite.display());
        }
    } else if let Some(lack) = missing::of_run(&runs, root) {
        println!("\n{}", lack.advice);
    }
    if is_cut {
        println!("\nThese runs had 5 minutes together; `ftest {}` has no such limit.", suite.display());
    }
    code
}

/// Adds what was asked for to the suite; returns the package and the suite before that.
fn add(suite: &Path, asked: &Asked, root: &Path) -> Option<(String, String)> {
    let before = fs::read_to_string(suite).ok()?;
    let addition = again::with(&before, asked, root)?;
    fs::write(suite, &addition.suite).ok()?;
    println!("\n{}", addition.said);
    Some((addition.package, before))
}

/// The same with as many GPUs as its command line starts processes: the program may need more than two.
fn as_launched(choice: &Choice) -> Option<Choice> {
    const MOST: u32 = 8;
    let processes = choice.program.processes?;
    let is_more = choice.nodes == 1 && processes > choice.gpus_per_node && processes <= MOST;
    is_more.then(|| Choice { gpus_per_node: processes, ..choice.clone() })
}

/// The next program of the repository in place of one that imports `module`, which nobody knows a package of: what an optional part
/// needs is not what the others need.
fn other(root: &Path, survey: &Survey, choice: &Choice, module: &str) -> Option<Choice> {
    let program = next(root, &survey.programs, &choice.program, module)?;
    println!("\n{} imports `{module}`, of no package that ftest knows; {} does not", choice.program.path, program.path);
    Some(choose(root, survey, program.clone(), choice.nodes, choice.gpus_per_node))
}

fn next<'p>(root: &Path, programs: &'p [Program], before: &Program, module: &str) -> Option<&'p Program> {
    if module.starts_with("torch.") || imports::is_own(root, module) {
        return None;
    }
    let uses = |program: &Program| {
        let sources = imports::follow(root, &root.join(&program.path)).sources;
        sources.iter().any(|text| imports::mentions(text, module))
    };
    let after = programs.iter().skip_while(|program| program.path != before.path).skip(1);
    after.into_iter().find(|program| !uses(program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_gets_as_many_gpus_as_its_command_line_has_processes() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a.py"), "import torch").unwrap();
        let survey = Survey::new(root.path()).unwrap();
        for (processes, gpus) in [(Some(4), Some(4)), (Some(2), None), (Some(1), None), (Some(64), None), (None, None)]
        {
            let program = Program { processes, ..Program::named("a.py") };
            let more = as_launched(&choose(root.path(), &survey, program, 1, 2));
            assert_eq!(more.map(|choice| choice.gpus_per_node), gpus, "{processes:?}");
        }
    }

    #[test]
    fn the_next_program_does_without_the_module() {
        let root = tempfile::tempdir().unwrap();
        let file = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        file("a.py", "import fast.part");
        file("b.py", "import pack.kernels");
        file("pack/kernels.py", "def f():\n    from fast.part import x");
        file("c.py", "import fast\nimport fast.partial");
        file("d.py", "import torch");
        let programs: Vec<Program> = ["a.py", "b.py", "c.py", "d.py"].map(Program::named).to_vec();
        let after = |before: &str, module: &str| {
            next(root.path(), &programs, &Program::named(before), module).map(|program| program.path.as_str())
        };
        assert_eq!(after("a.py", "fast.part"), Some("c.py"));
        assert_eq!(after("a.py", "fast"), Some("d.py"));
        assert_eq!(after("d.py", "fast"), None);
        // It is for another PyTorch, as the others will be; and what the repository has is not missing in one program alone.
        assert_eq!(after("a.py", "torch._six"), None);
        assert_eq!(after("a.py", "pack"), None);
    }
}
