//! Python code that runs in a program once it has imported PyTorch, without changes to the program.

use std::path::Path;
use std::{fs, io};

use protocol::env;
use runner::execute::launch::environment::Environment;

/// The module that Python imports by itself from a directory on PYTHONPATH. Where Python does not do so (`-I`, `-S`, a script that
/// sets PYTHONPATH), the shim runs it.
const HOOK: &str = include_str!("sitecustomize.py");

/// Lets `part`, a module with a function `begin(torch)`, run in the programs that get `environment`. Creates `directory` for
/// it; the part can locate itself through `__file__`.
///
/// # Errors
/// The system's.
pub(super) fn install(environment: &mut Environment, directory: &Path, part: &str) -> io::Result<()> {
    fs::create_dir(directory)?;
    fs::write(directory.join("sitecustomize.py"), HOOK)?;
    fs::write(directory.join("part.py"), part)?;
    environment.prepend("PYTHONPATH", directory);
    environment.prepend(env::AFTER_TORCH.name, directory);
    Ok(())
}
