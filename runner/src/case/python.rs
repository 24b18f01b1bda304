//! Which Python a case needs.

/// The default requirements of a managed environment.
pub const DEFAULT_REQUIREMENTS: &[&str] = &["numpy", "torch==2.15.0"];
/// The last PyTorch for a Python that the default one has no wheel for.
const OLDER: &[(&str, &str)] = &[("3.10", "torch==2.14.1")];
/// The Python on `PATH` instead of a managed one, in `python` and in `FTEST_PYTHON`.
pub const SYSTEM: &str = "system";
/// The managed environment whatever is active, in `FTEST_PYTHON`.
pub const MANAGED: &str = "managed";

/// The default requirements for this version of Python, `3.11`: what there are wheels for.
pub fn default_requirements_of(version: &str) -> Vec<String> {
    let older = OLDER.iter().find(|(python, _)| *python == version).map(|(_, torch)| *torch);
    let choose = |one: &&'static str| older.filter(|_| package(one) == "torch").unwrap_or(one).to_owned();
    DEFAULT_REQUIREMENTS.iter().map(choose).collect()
}

/// Name prefixes of packages that the shim replaces or that need a real GPU.
const REPLACED: &[&str] = &["nvidia-", "cuda-", "triton", "pytorch-triton"];
/// The package `torch.compile` generates GPU code with. If required without a version, PyTorch's own requirement
/// decides the version.
pub const COMPILER: &str = "triton";
/// NVIDIA packages that are kept: they query the driver and contain no libraries themselves.
const KEPT: &[&str] = &["nvidia-ml-py"];

/// The Python a case needs; cases with equal needs share an environment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PythonNeed {
    /// A managed environment with these requirements, as lines of a requirements file, sorted: `torch==2.15.0`, `-e
    /// DIRECTORY`, `--extra-index-url URL`; and `-c numpy<2`, which constrains a package that something else requires.
    /// The default requirements if empty.
    Managed(Vec<String>),
    /// The one on `PATH`.
    System,
}

/// The package of a requirement, as PyPI normalizes names.
pub fn package(requirement: &str) -> String {
    let end = requirement.find(|letter: char| !(letter.is_ascii_alphanumeric() || "-_.".contains(letter)));
    requirement[..end.unwrap_or(requirement.len())].to_ascii_lowercase().replace(['_', '.'], "-")
}

/// Whether the shim takes the place of a requirement, or only a GPU could use it.
pub fn is_replaced(requirement: &str) -> bool {
    let package = package(requirement);
    !KEPT.contains(&package.as_str()) && REPLACED.iter().any(|prefix| package.starts_with(prefix))
}

/// Requirements plus what `torch.compile` needs.
pub fn with_compiler(mut requirements: Vec<String>) -> Vec<String> {
    if !requirements.iter().any(|one| package(one) == COMPILER) {
        requirements.push(COMPILER.to_owned());
    }
    requirements
}

/// Whether requirements leave the choice of PyTorch to ftest: there are none, or only the one for `torch.compile`.
pub fn is_default(requirements: &[String]) -> bool {
    requirements.iter().all(|one| one == COMPILER)
}

/// Requirements for display: without hashes, and only the first few if there are many.
pub fn shown(requirements: &[String]) -> String {
    const MOST: usize = 8;
    let all = || requirements.iter().map(|line| line.split(" --hash=").next().unwrap_or_default());
    if requirements.len() <= MOST {
        return all().collect::<Vec<_>>().join(" ");
    }
    let (first, rest): (Vec<&str>, Vec<&str>) = all().partition(|one| package(one) == "torch");
    let some: Vec<&str> = first.into_iter().chain(rest).take(MOST).collect();
    format!("{} and {} more", some.join(" "), requirements.len() - some.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_normalized() {
        let cases = [("torch==2.15.0", "torch"), ("Typing_Extensions>=4", "typing-extensions"), ("a.b[c]; x", "a-b")];
        for (requirement, expected) in cases {
            assert_eq!(package(requirement), expected);
        }
    }

    #[test]
    fn libraries_of_the_gpu_are_replaced_and_its_monitor_is_not() {
        for (requirement, expected) in [
            ("nvidia-nccl-cu13==2.30", true),
            ("NVIDIA_cublas", true),
            ("triton~=3.9.0", true),
            ("cuda-toolkit[cublas]==13.2.2", true),
            ("nvidia-ml-py>=12", false),
            ("torch==2.15.0", false),
        ] {
            assert_eq!(is_replaced(requirement), expected, "{requirement}");
        }
    }

    #[test]
    fn the_default_pytorch_has_a_wheel_for_the_interpreter() {
        assert_eq!(default_requirements_of("3.10"), ["numpy", "torch==2.14.1"]);
        assert_eq!(default_requirements_of("3.11"), DEFAULT_REQUIREMENTS);
        assert_eq!(default_requirements_of("uv"), DEFAULT_REQUIREMENTS);
    }

    #[test]
    fn the_compiler_is_added_once() {
        let with = |lines: &[&str]| with_compiler(lines.iter().map(|line| (*line).to_owned()).collect());
        assert_eq!(with(&[]), ["triton"]);
        assert_eq!(with(&["torch==2.9.1"]), ["torch==2.9.1", "triton"]);
        assert_eq!(with(&["Triton==3.9.0", "torch"]), ["Triton==3.9.0", "torch"]);
        let is_default = |lines: &[&str]| is_default(&lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>());
        assert!(is_default(&[]) && is_default(&["triton"]) && !is_default(&["triton==3.9.0"]) && !is_default(&["six"]));
    }

    #[test]
    fn of_many_requirements_pytorch_is_shown_first() {
        let many: Vec<String> = (0..20).map(|index| format!("p{index}")).chain(["torch==2.15.0".to_owned()]).collect();
        assert_eq!(shown(&many), "torch==2.15.0 p0 p1 p2 p3 p4 p5 p6 and 13 more");
        assert_eq!(shown(&many[18..]), "p18 p19 torch==2.15.0");
        assert_eq!(shown(&["six==1.17.0 --hash=sha256:47".to_owned()]), "six==1.17.0");
    }
}
