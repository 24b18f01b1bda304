//! uv on a machine that has none: fetched as a wheel, with pip's configuration.

use std::fs;
use std::path::Path;

use super::error::Error;
use super::step::{command, run, step};

/// The requirement that pip fetches: 1.0 is free to change its commands.
const UV: &str = "uv>=0.9,<1";

/// Fetches it atomically: it is renamed into place.
pub(super) fn fetch(python: &Path, directory: &Path) -> Result<(), Error> {
    let wrong = |source| Error::Cache { place: directory.to_owned(), source };
    let half = directory.with_extension("new");
    for place in [&half, directory] {
        if place.exists() {
            fs::remove_dir_all(place).map_err(wrong)?;
        }
    }
    let target = half.display().to_string();
    let words =
        ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--target", &target, UV];
    step("pip install uv", command(python, &words), &|_| {})?;
    // A wheel for another machine type installs as well.
    run(&half.join("bin/uv"), &["--version"])?;
    fs::rename(&half, directory).map_err(wrong)
}

/// pip's configuration, as variables for a uv that is not configured. Variables that are already set stay.
pub(super) fn settings_of_pip(python: &Path) -> Vec<(String, String)> {
    let listed = run(python, &["-m", "pip", "config", "list"]).unwrap_or_default();
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    settings(&listed).into_iter().filter(|(name, _)| !is_set(name)).collect()
}

/// The same, from the output of `pip config list`: `global.index-url='...'`, with `:env:` for variables, which take
/// precedence.
fn settings(listed: &str) -> Vec<(String, String)> {
    let value = |key: &str| {
        let of = |section: &str| {
            let start = format!("{section}.{key}=");
            let value = listed.lines().find_map(|line| line.strip_prefix(start.as_str()))?;
            Some(value.trim().trim_matches(['\'', '"']).replace("\\n", " ").trim().to_owned())
        };
        [":env:", "install", "global"].into_iter().find_map(of).filter(|value| !value.is_empty())
    };
    let mut settings = Vec::new();
    let mut set = |name: &str, value: Option<String>| settings.extend(value.map(|value| (name.to_owned(), value)));
    set("UV_DEFAULT_INDEX", value("index-url"));
    let extra = value("extra-index-url");
    // As pip does: the best version of all indexes.
    set("UV_INDEX_STRATEGY", extra.as_ref().map(|_| "unsafe-best-match".to_owned()));
    set("UV_INDEX", extra);
    let places = value("find-links").unwrap_or_default();
    // pip skips a directory that does not exist.
    let places: Vec<&str> =
        places.split_whitespace().filter(|place| place.contains("://") || Path::new(place).exists()).collect();
    set("UV_FIND_LINKS", Some(places.join(",")).filter(|places| !places.is_empty()));
    let is_true = |value: &String| ["1", "true", "yes", "on"].contains(&value.to_ascii_lowercase().as_str());
    set("UV_NO_INDEX", value("no-index").filter(is_true));
    set("UV_INSECURE_HOST", value("trusted-host"));
    set("UV_HTTP_TIMEOUT", value("timeout").or_else(|| value("default-timeout")));
    set("SSL_CERT_FILE", value("cert"));
    set("ALL_PROXY", value("proxy"));
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pip_is_configured_to_do_uv_does() {
        let listed = ":env:.find-links='/nowhere/wheels https://a/wheels /'\n:env:.index-url='https://mine/simple'\n\
            global.index-url='https://other/simple'\nglobal.extra-index-url='\\nhttps://x/simple\\nhttps://y/simple'\n\
            global.no-index='false'\ninstall.cert='/etc/ca.pem'\nglobal.default-timeout='180'\nglobal.unknown='1'\n";
        let expected = [
            ("UV_DEFAULT_INDEX", "https://mine/simple"),
            ("UV_INDEX_STRATEGY", "unsafe-best-match"),
            ("UV_INDEX", "https://x/simple https://y/simple"),
            ("UV_FIND_LINKS", "https://a/wheels,/"),
            ("UV_HTTP_TIMEOUT", "180"),
            ("SSL_CERT_FILE", "/etc/ca.pem"),
        ];
        assert_eq!(settings(listed), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(settings(""), []);
        assert_eq!(settings("global.no-index='true'\n"), [("UV_NO_INDEX".to_owned(), "true".to_owned())]);
    }
}
