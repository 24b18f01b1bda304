//! Who a Python file belongs to: the user, or Python, PyTorch or an installed package; and which code torch.compile
//! generated.

/// Whether a frame of `file` is the user's, judging by the name. `framework` is the directory of the PyTorch that called us, if
/// any; it need not be an installed package.
pub(super) fn is_users(file: &str, framework: Option<&str>) -> bool {
    let installed = ["/site-packages/", "/dist-packages/"].iter().any(|directory| file.contains(directory));
    let inside = framework.is_some_and(|root| file.strip_prefix(root).is_some_and(|rest| rest.starts_with('/')));
    !(installed || inside || file.starts_with("<frozen ") || is_of_the_standard_library(file))
}

/// Whether torch.compile generated this code: a graph (`<eval_with_key>.7`), an inductor module (`c` and 51 digits of base 32, in
/// a directory named by the first two of them: `torch._inductor.codecache`), or the function with which inductor launches a
/// kernel.
pub(super) fn is_generated(file: &str, function: &str) -> bool {
    let is_module = || {
        let (directories, name) = file.rsplit_once('/')?;
        let digits = name.strip_suffix(".py")?.strip_prefix('c')?;
        let is_digit = |byte: u8| matches!(byte, b'a'..=b'z' | b'2'..=b'7');
        (digits.len() == 51 && digits.bytes().all(is_digit) && directories.ends_with(&digits[..2])).then_some(())
    };
    file.starts_with("<eval_with_key>") || (file == "<string>" && function == "launcher") || is_module().is_some()
}

/// `.../lib/python3.11/threading.py`
fn is_of_the_standard_library(file: &str) -> bool {
    let in_it = |rest: &str| {
        let (version, inside) = rest.split_once('/').unwrap_or((rest, ""));
        !inside.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.' || byte == b't')
    };
    ["/lib/python3.", "/lib64/python3."]
        .iter()
        .any(|directory| file.split_once(directory).is_some_and(|(_, rest)| in_it(rest)))
}

/// Whether `file` is where PyTorch hands a backward pass to its own threads and waits for them.
pub(super) fn waits_for_backward(file: &str) -> bool {
    file.ends_with("/torch/autograd/graph.py") || file.ends_with("/torch/autograd/__init__.py")
}

/// Whether PyTorch infers shapes there: it runs the program's modules on uninitialized memory and discards the results.
pub(super) fn learns_shapes(file: &str, function: &str) -> bool {
    // With its class before it, except in Python 3.10.
    function.rsplit('.').next() == Some("_forward_metadata_inference")
        && file.ends_with("/torch/distributed/pipelining/stage.py")
}

/// The directory of the package whose library is at `path`: `X/torch` for `X/torch/lib/libtorch_cuda.so`.
pub(super) fn framework_of(path: &str) -> Option<&str> {
    let (package, library) = path.rsplit_once("/lib/")?;
    library.starts_with("libtorch").then_some(package)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_by_table() {
        let torch = framework_of("/src/pytorch/torch/lib/libtorch_cuda.so");
        assert_eq!(torch, Some("/src/pytorch/torch"));
        assert_eq!(framework_of("/usr/lib/libfoo.so"), None);
        for (file, is) in [
            ("/home/me/train.py", true),
            ("train.py", true),
            ("<string>", true),
            ("/repository/examples/torch/train.py", true),
            ("/home/me/lib/python3.11x/train.py", true),
            ("/src/pytorch/torchvision/train.py", true),
            ("<frozen runpy>", false),
            ("/src/pytorch/torch/distributed/distributed_c10d.py", false),
            ("/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", false),
            ("/usr/lib/python3/dist-packages/six.py", false),
            ("/usr/lib/python3.11/threading.py", false),
            ("/opt/python/lib64/python3.13t/threading.py", false),
        ] {
            assert_eq!(is_users(file, torch), is, "{file}");
        }
        let module = "crx3zkdkcjriubv7uldogptcxdrf4joq36kmez5enepmavujqvcw.py";
        for (file, function, is) in [
            (&format!("/scratch/torchinductor_me/rx/{module}")[..], "call", true),
            (&format!("/home/me/ab/{module}"), "call", false),
            ("/home/me/ra/crashes.py", "main", false),
            ("<eval_with_key>.7", "forward", true),
            ("<string>", "launcher", true),
            ("<string>", "<module>", false),
        ] {
            assert_eq!(is_generated(file, function), is, "{file} {function}");
        }
        let stage = "/venv/lib/python3.11/site-packages/torch/distributed/pipelining/stage.py";
        assert!(learns_shapes(stage, "PipelineStage._forward_metadata_inference"));
        assert!(learns_shapes(stage, "_forward_metadata_inference"));
        assert!(!learns_shapes(stage, "forward_one_chunk"));
        assert!(!learns_shapes("/home/me/stage.py", "_forward_metadata_inference"));
    }
}
