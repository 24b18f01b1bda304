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

/// NVIDIA's libraries that the shim replaces: packages `nvidia-NAME`, with or without CUDA's version at the end, that contain
/// nothing but shared libraries and headers. Compilers, Python modules and libraries that the shim does not have are others.
const LIBRARIES: &[&str] = &[
    "cublas",
    "cuda-cupti",
    "cuda-nvrtc",
    "cuda-runtime",
    "cudnn",
    "cufft",
    "cufile",
    "curand",
    "cusolver",
    "cusparse",
    "cusparselt",
    "nccl",
    "nvjitlink",
    "nvshmem",
    "nvtx",
];
const CUDA_VERSIONS: &[&str] = &["", "-cu11", "-cu12", "-cu13"];
/// A package that contains nothing: its extras require those libraries.
const LIST: &str = "cuda-toolkit";
/// Triton, also as PyTorch's nightly versions name it.
const COMPILERS: &[&str] = &[COMPILER, "pytorch-triton"];
/// Python modules for CUDA's API.
const BINDINGS: &[&str] = &["cuda-bindings", "cuda-pathfinder"];
/// The package `torch.compile` generates GPU code with. If required without a version, PyTorch's own requirement
/// decides the version.
pub const COMPILER: &str = "triton";

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

/// The packages of NVIDIA's libraries that the shim replaces.
pub fn replaced() -> impl Iterator<Item = String> {
    let named = |name| CUDA_VERSIONS.iter().map(move |version| format!("nvidia-{name}{version}"));
    LIBRARIES.iter().flat_map(named).chain([LIST.to_owned()])
}

/// Whether the shim takes the place of a requirement.
pub fn is_replaced(requirement: &str) -> bool {
    let package = package(requirement);
    replaced().any(|name| name == package)
}

/// The packages that PyTorch requires, but runs without: installed if anything else requires them.
pub fn optional() -> impl Iterator<Item = &'static str> {
    COMPILERS.iter().chain(BINDINGS).copied()
}

/// Whether PyTorch's requirement of this package is not followed.
pub fn is_optional(requirement: &str) -> bool {
    let package = package(requirement);
    optional().any(|name| name == package)
}

/// Whether a line of a requirements or lock file is not followed, because it may be there for PyTorch only.
pub fn is_left_out(requirement: &str) -> bool {
    is_replaced(requirement) || COMPILERS.contains(&package(requirement).as_str())
}

/// Whether a package that may be left out provides this Python module: `triton.language`, `cuda.bindings`, `nvidia.nccl`.
pub fn provides(package: &str, module: &str) -> bool {
    let mut parts = module.split('.');
    match (parts.next(), parts.next()) {
        (Some("triton"), _) => COMPILERS.contains(&package),
        (Some("cuda"), None) => package == "cuda-bindings",
        (Some("cuda"), Some(part)) => package == format!("cuda-{part}"),
        (Some("nvidia"), None) => package.starts_with("nvidia-"),
        (Some("nvidia"), Some(part)) => {
            let name = format!("nvidia-{}", part.replace('_', "-"));
            package == name || (package.strip_prefix(&name)).is_some_and(|version| version.starts_with("-cu"))
        }
        _ => false,
    }
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
            ("nvidia-cuda-runtime-cu12", true),
            ("cuda-toolkit[cublas]==13.2.2", true),
            ("triton~=3.9.0", false),
            ("cuda-bindings", false),
            ("nvidia-ml-py>=12", false),
            ("nvidia-cuda-nvcc-cu12", false),
            ("nvidia-cutlass-dsl", false),
            ("nvidia-cuda-cccl", false),
            ("nvidia-modelopt", false),
            ("torch==2.15.0", false),
        ] {
            assert_eq!(is_replaced(requirement), expected, "{requirement}");
        }
        assert!(is_optional("triton~=3.9.0") && is_optional("cuda_bindings") && !is_optional("nvidia-nccl-cu13"));
        assert!(is_left_out("triton") && !is_left_out("cuda-bindings"));
    }

    #[test]
    fn a_module_is_that_of_a_package() {
        for (package, module, expected) in [
            ("triton", "triton.language", true),
            ("cuda-bindings", "cuda", true),
            ("cuda-bindings", "cuda.bindings", true),
            ("cuda-bindings", "cuda.core", false),
            ("nvidia-nccl-cu13", "nvidia.nccl", true),
            ("nvidia-cuda-runtime", "nvidia.cuda_runtime", true),
            ("nvidia-cuda-runtime", "nvidia.cuda", false),
            ("nvidia-nccl-cu13", "nvidia.dali", false),
            ("triton", "numpy", false),
        ] {
            assert_eq!(provides(package, module), expected, "{package} {module}");
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
