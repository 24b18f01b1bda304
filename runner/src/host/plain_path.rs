//! Paths for lists that have no quotes: the loader splits `LD_PRELOAD` at spaces and colons, and everyone splits `PATH` at
//! colons. A path with such a character is reached through a link in a directory that only this user can write to.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::hash::Hasher;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Component, Path, PathBuf};

use parking_lot::Mutex;
use xxhash_rust::xxh64::Xxh64;

use crate::host::cache_directory::cache_directory;
use crate::host::variable;

/// Every link that this process uses, and where it leads.
static USED: Mutex<BTreeMap<PathBuf, PathBuf>> = Mutex::new(BTreeMap::new());

/// `path` as the loader can have it, in `LD_PRELOAD`, `LD_LIBRARY_PATH` and in what a library needs: without separators,
/// without `$`, which it expands, and without what shells and srun (`%`) take for more than a character.
///
/// # Errors
/// One sentence: there is no place for a link, or the name of the file itself has such a character.
pub fn for_loader(path: &Path) -> Result<PathBuf, String> {
    without(path, &splits_for_loader)
}

fn splits_for_loader(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte.is_ascii_control() || b":;$%'\"\\`".contains(&byte)
}

/// `path` as an entry of `PATH` and other lists with colons.
///
/// # Errors
/// As for [`for_loader`].
pub fn for_list(path: &Path) -> Result<PathBuf, String> {
    without(path, &|byte| byte == b':')
}

/// The directory `path` by a name of at most `longest` bytes that the loader can have.
///
/// # Errors
/// As for [`for_loader`].
pub(crate) fn short(path: &Path, longest: usize) -> Result<PathBuf, String> {
    match for_loader(path) {
        Ok(plain) if plain.as_os_str().len() <= longest => Ok(plain),
        _ => link(path, longest),
    }
}

/// Every link that this process uses, and where it leads.
pub(crate) fn used() -> Vec<(PathBuf, PathBuf)> {
    USED.lock().iter().map(|(link, target)| (link.clone(), target.clone())).collect()
}

/// A link of another machine, here.
///
/// # Errors
/// As for [`for_loader`].
pub(crate) fn again(target: &Path) -> Result<PathBuf, String> {
    link(target, usize::MAX)
}

/// `path` without the bytes that `splits`: everything above and including the last name with one becomes a link.
fn without(path: &Path, splits: &dyn Fn(u8) -> bool) -> Result<PathBuf, String> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let has_one = |part: &Component<'_>| part.as_os_str().as_bytes().iter().any(|byte| splits(*byte));
    let parts: Vec<Component<'_>> = path.components().collect();
    let Some(last) = parts.iter().rposition(has_one) else { return Ok(path) };
    let target: PathBuf = parts[..=last].iter().collect();
    if target.is_file() {
        return Err(format!("{target:?}: its name has a character that the loader takes for a separator; rename it"));
    }
    Ok(parts[last + 1..].iter().fold(link(&target, usize::MAX)?, |path, part| path.join(part)))
}

/// A link to the directory `target`, at most `longest` bytes long.
fn link(target: &Path, longest: usize) -> Result<PathBuf, String> {
    let mut name = Xxh64::new(0);
    name.write(target.as_os_str().as_bytes());
    let name = format!("{:016x}", name.finish());
    let mut tried = Vec::new();
    for place in places() {
        let link = place.join(&name);
        if link.as_os_str().len() > longest {
            continue;
        }
        match own(&place).and_then(|()| lead(&link, target)) {
            Ok(()) => {
                USED.lock().insert(link.clone(), target.to_owned());
                return Ok(link);
            }
            Err(error) => tried.push(format!("{}: {error}", place.display())),
        }
    }
    Err(format!(
        "{target:?} is too long or has a character that separates paths, and there is no place for a link to it ({}); set \
         FTEST_CACHE_DIR or TMPDIR to a directory without such characters",
        tried.join("; ")
    ))
}

/// Where links may be: in the cache, which other machines may share, else in directories for temporary files.
fn places() -> impl Iterator<Item = PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let cache = cache_directory().ok().map(|cache| cache.join(format!("links-{user}")));
    let chosen = variable::get("TMPDIR").map(PathBuf::from);
    let others = [Some("/tmp".into()), chosen, Some("/var/tmp".into()), Some("/dev/shm".into())];
    let others = others.into_iter().flatten().map(move |place: PathBuf| place.join(format!("ftest-{user}")));
    let is_plain = |place: &PathBuf| {
        place.is_absolute() && !place.as_os_str().as_bytes().iter().any(|byte| splits_for_loader(*byte))
    };
    cache.into_iter().chain(others).filter(is_plain)
}

/// Makes the directory `place`, which nobody else may write to.
fn own(place: &Path) -> io::Result<()> {
    if let Some(parent) = place.parent().filter(|parent| !parent.exists()) {
        fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(place) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(place)?;
    if found.is_dir() && found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o022 == 0 {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user can write to it"))
}

/// Has `link` lead to `target`. Several processes may do so at once.
fn lead(link: &Path, target: &Path) -> io::Result<()> {
    if fs::read_link(link).is_ok_and(|found| found == target) {
        return Ok(());
    }
    let place = link.parent().unwrap_or(Path::new("/"));
    // Those that lead nowhere any more, as to the TMPDIR of a test, would collect.
    for old in fs::read_dir(place)?.flatten().map(|entry| entry.path()) {
        if old.is_symlink() && fs::metadata(&old).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            let _ = fs::remove_file(old);
        }
    }
    let fresh = tempfile::tempdir_in(place)?;
    let made = fresh.path().join("link");
    symlink(target, &made)?;
    fs::rename(&made, link)?;
    // A file system can refuse to follow links.
    fs::metadata(link).map(|_| ()).or_else(|error| if target.exists() { Err(error) } else { Ok(()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_would_be_split_goes_through_a_link() {
        let root = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(root.path()).unwrap();
        assert_eq!(for_loader(&root.join("a,b/ü/lib.so")), Ok(root.join("a,b/ü/lib.so")));
        for name in ["my project", "a:b", "a;b", "$ORIGIN", "100%", "it's", "\"", "a\nb", "a\\b"] {
            let (directory, below) = (root.join(name), root.join(name).join("v/lib"));
            fs::create_dir_all(&below).unwrap();
            fs::write(below.join("lib.so"), name).unwrap();
            let plain = for_loader(&below.join("lib.so")).unwrap();
            assert!(plain.ends_with("v/lib/lib.so") && plain == for_loader(&plain).unwrap(), "{plain:?}");
            assert_eq!(fs::read_to_string(&plain).unwrap(), name);
            assert!(used().contains(&(plain.ancestors().nth(3).unwrap().to_owned(), directory)), "{name}");
            assert_eq!(for_list(&below).unwrap() == below, name != "a:b", "{name}");
        }
        fs::write(root.join("lib x.so"), "").unwrap();
        assert!(for_loader(&root.join("lib x.so")).unwrap_err().contains("rename it"));
        let deep = root.join("d".repeat(200));
        assert!(short(&deep, 64).unwrap().as_os_str().len() <= 64 && short(&deep, 3).is_err());
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_no_place_and_a_wrong_link_is_replaced() {
        let root = tempfile::tempdir().unwrap();
        let place = root.path().join("links");
        own(&place).unwrap();
        lead(&place.join("l"), Path::new("/usr")).unwrap();
        lead(&place.join("l"), root.path()).unwrap();
        assert_eq!(fs::read_link(place.join("l")).unwrap(), root.path());
        assert_eq!(fs::read_dir(&place).unwrap().count(), 1);
        lead(&place.join("gone"), &root.path().join("gone")).unwrap();
        lead(&place.join("m"), root.path()).unwrap();
        assert!(!place.join("gone").is_symlink() && place.join("l").exists());
        fs::set_permissions(&place, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        assert_eq!(own(&place).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        symlink(&place, root.path().join("led")).unwrap();
        assert!(own(&root.path().join("led")).is_err(), "a link of somebody else's");
    }
}
