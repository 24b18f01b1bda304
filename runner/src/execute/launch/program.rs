//! Finds the program of a command before anything is started, so that a missing program is reported immediately.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where programs are looked for if `PATH` is unset.
pub const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Why a program cannot be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// Nothing has this name.
    #[error("{program}: not found{}", .searched.as_ref().map(|path| format!(" in PATH={path}")).unwrap_or_default())]
    NotFound {
        /// As the user wrote it.
        program: String,
        /// The search path, if one was used.
        searched: Option<String>,
    },
    /// It exists but may not be executed.
    #[error("{0}: not an executable file; `chmod +x` it or name its interpreter")]
    NotExecutable(PathBuf),
}

impl ProgramError {
    /// The exit code that a shell returns for it.
    pub fn exit_code(&self) -> i32 {
        match self {
            ProgramError::NotFound { .. } => 127,
            ProgramError::NotExecutable(_) => 126,
        }
    }
}

/// The file for `program`: relative to `directory` if it contains a slash, else the first executable in `path`.
///
/// # Errors
/// [`ProgramError`].
pub fn find(program: &OsStr, path: Option<&OsStr>, directory: &Path) -> Result<PathBuf, ProgramError> {
    let name = Path::new(program);
    if name.components().count() != 1 || program.as_encoded_bytes().contains(&b'/') {
        let file = directory.join(name);
        return match file.metadata() {
            Err(_) => Err(ProgramError::NotFound { program: file.display().to_string(), searched: None }),
            Ok(meta) if meta.is_file() && meta.permissions().mode() & 0o111 != 0 => Ok(file),
            Ok(_) => Err(ProgramError::NotExecutable(file)),
        };
    }
    let path = path.filter(|path| !path.is_empty()).unwrap_or(OsStr::new(PATH));
    let mut refused = None;
    for place in std::env::split_paths(path) {
        let file = directory.join(place).join(name);
        match file.metadata() {
            Ok(meta) if meta.is_file() && meta.permissions().mode() & 0o111 != 0 => return Ok(file),
            Ok(meta) if meta.is_file() => refused = refused.or(Some(file)),
            _ => {}
        }
    }
    Err(match refused {
        Some(file) => ProgramError::NotExecutable(file),
        None => ProgramError::NotFound {
            program: name.display().to_string(),
            searched: Some(path.to_string_lossy().into_owned()),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_by_path_and_by_place_and_says_what_is_wrong() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("tool");
        std::fs::write(&file, "#!/bin/sh\n").unwrap();
        let search = root.path().as_os_str();
        assert_eq!(
            find(OsStr::new("tool"), Some(search), Path::new("/")),
            Err(ProgramError::NotExecutable(file.clone()))
        );
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find(OsStr::new("tool"), Some(search), Path::new("/")), Ok(file.clone()));
        assert_eq!(find(OsStr::new("./tool"), None, root.path()), Ok(root.path().join("./tool")));
        let missing = find(OsStr::new("tole"), Some(search), Path::new("/")).unwrap_err();
        assert_eq!((missing.exit_code(), missing.to_string().starts_with("tole: not found in PATH=")), (127, true));
    }
}
