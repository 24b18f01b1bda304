//! The user's cache directory for ftest: environments, headers, holders, compiled kernels.

use std::ffi::OsString;
use std::path::PathBuf;

use protocol::env;

/// What to do if the cache directory cannot be used.
pub const CACHE_ADVICE: &str = "set FTEST_CACHE_DIR to a directory that can be written";

/// The user's cache directory for ftest: `FTEST_CACHE_DIR`, `$XDG_CACHE_HOME/ftest` or `~/.cache/ftest`.
///
/// # Errors
/// One sentence if none of the three variables is set. It contains [`CACHE_ADVICE`].
pub fn cache_directory() -> Result<PathBuf, String> {
    cache_directory_from(|name| std::env::var_os(name))
}

fn cache_directory_from(get: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, String> {
    let set = |name: &str| get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = set(env::CACHE.name) {
        return Ok(std::path::absolute(&path).unwrap_or(path));
    }
    // The XDG specification requires that relative paths are ignored.
    if let Some(path) = set("XDG_CACHE_HOME").filter(|path| path.is_absolute()) {
        return Ok(path.join("ftest"));
    }
    let home = set("HOME").map(|home| std::path::absolute(&home).unwrap_or(home));
    home.map(|home| home.join(".cache/ftest")).ok_or_else(|| {
        format!("no cache directory: none of {}, XDG_CACHE_HOME and HOME is set; {CACHE_ADVICE}", env::CACHE.name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_directory_follows_the_variables_in_order() {
        let with = |pairs: &[(&str, &str)]| {
            let pairs: Vec<(String, OsString)> =
                pairs.iter().map(|(name, value)| (name.to_string(), value.into())).collect();
            cache_directory_from(move |name| pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.clone()))
        };
        assert_eq!(with(&[("HOME", "/h")]), Ok(PathBuf::from("/h/.cache/ftest")));
        assert_eq!(with(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/c")]), Ok(PathBuf::from("/c/ftest")));
        assert_eq!(with(&[("HOME", "/h"), ("XDG_CACHE_HOME", "rel")]), Ok(PathBuf::from("/h/.cache/ftest")));
        assert_eq!(with(&[("FTEST_CACHE_DIR", "/f"), ("XDG_CACHE_HOME", "/c")]), Ok(PathBuf::from("/f")));
        assert!(with(&[]).unwrap_err().contains("FTEST_CACHE_DIR"));
    }
}
