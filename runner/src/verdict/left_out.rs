//! A program that imports a package which ftest left out of its environment: the case is broken, and says how to get it.

use std::sync::LazyLock;

use regex::bytes::Regex;

use crate::case::Case;
use crate::case::python::provides;
use crate::check::{Failure, FailureKind};
use crate::observation::{Observation, ProcessObservation};

/// The end of a traceback, also as torchrun and others mark it.
static NO_MODULE: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"(?m)^(?:\[[^\]\n]*\]:? ?)*(?:ModuleNotFoundError|ImportError): .*No module named '([\w.]+)'";
    Regex::new(pattern).expect("a constant")
});

/// One failure for each package that a process missed.
pub(super) fn failures(case: &Case, observation: &Observation) -> Vec<Failure> {
    let left_out = observation.python.as_ref().map_or(&[][..], |python| &python.left_out);
    let mut failures: Vec<Failure> = Vec::new();
    let ended = |process: &&ProcessObservation| !case.expect.exit.accepts(process.role, &process.exit);
    for process in observation.processes.iter().filter(ended) {
        let streams = [&process.stderr.head, &process.stderr.tail];
        for found in streams.iter().flat_map(|text| NO_MODULE.captures_iter(text)) {
            let module = String::from_utf8_lossy(&found[1]).into_owned();
            let Some(package) = left_out.iter().find(|package| provides(package, &module)) else { continue };
            let expected = format!("the Python environment has `{package}`");
            if failures.iter().any(|failure| failure.expected == expected) {
                continue;
            }
            failures.push(Failure {
                place: None,
                kind: FailureKind::Environment,
                expected,
                got: format!(
                    "{} imports `{module}`, and ftest left `{package}` out of the environment that it made",
                    process.role
                ),
                next: format!("name it in `python`, and it is installed: `python: [..., {package}]`"),
            });
        }
    }
    failures
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{Captured, Exit, PythonUsed, Role};

    fn seen(exit: Exit, stderr: &str) -> Observation {
        let captured = Captured { head: stderr.as_bytes().to_vec(), ..Captured::default() };
        let process = ProcessObservation { role: Role::Rank(0), exit, stdout: Captured::default(), stderr: captured };
        let left_out = vec!["cuda-bindings".to_owned(), "triton".to_owned()];
        let python = Some(PythonUsed { left_out, ..PythonUsed::default() });
        Observation { processes: vec![process], python, ..Observation::default() }
    }

    #[test]
    fn an_import_of_what_was_left_out_names_the_package_and_the_cure() {
        let failures = |exit, stderr: &str| {
            let found = failures(&Case::default(), &seen(exit, stderr));
            found.into_iter().map(|failure| format!("{} / {}", failure.got, failure.next)).collect::<Vec<_>>()
        };
        let line =
            "Traceback\n[rank0]: ModuleNotFoundError: No module named 'triton.language'; 'triton' is not a package\n";
        let expected = "rank 0 imports `triton.language`, and ftest left `triton` out of the environment that it made / \
                        name it in `python`, and it is installed: `python: [..., triton]`";
        assert_eq!(failures(Exit::Code(1), line), [expected]);
        assert_eq!(failures(Exit::Code(1), &line.repeat(2)), [expected]);
        // The program went on without it.
        assert_eq!(failures(Exit::Code(0), line), [""; 0]);
        // Nobody left this out.
        assert_eq!(failures(Exit::Code(1), "ModuleNotFoundError: No module named 'requests'\n"), [""; 0]);
        assert_eq!(failures(Exit::Code(1), "ModuleNotFoundError: No module named 'cuda.core'\n"), [""; 0]);
        assert_eq!(failures(Exit::Code(1), "ModuleNotFoundError: No module named 'cuda'\n").len(), 1);
    }
}
