//! Files that are written atomically.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Writes `parts` to `path`, replacing any existing file. A new file gets permissions according to the user's umask; an
/// existing one keeps its own.
///
/// # Errors
/// It cannot be written; an existing file stays.
pub fn replace(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().permissions(Permissions::from_mode(0o666)).tempfile_in(parent)?;
    for part in parts {
        file.write_all(part)?;
    }
    // A file system that allocates space late (over a network, with a quota) would otherwise leave an empty file in place
    // of the old one, without an error.
    file.as_file().sync_data()?;
    if let Ok(there) = fs::metadata(path) {
        file.as_file().set_permissions(there.permissions())?;
    }
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_there_keeps_its_permissions() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("report");
        replace(&path, &[b"a", b"b"]).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        replace(&path, &[b"c"]).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!((fs::read(&path).unwrap(), mode & 0o777), (b"c".to_vec(), 0o640));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
