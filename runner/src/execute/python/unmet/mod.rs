//! Which requirements an interpreter that ftest did not make does not meet.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::inventory::{Inventory, Package};
use super::marker;
use crate::case::python::{COMPILER, is_replaced, package};
use crate::host::version::{Range, Version};

/// Extras that name each other end here.
const DEEPEST: usize = 8;

/// A requirement in pip's syntax, taken apart.
#[derive(Debug, PartialEq, Eq)]
struct Requirement<'a> {
    /// Normalized.
    name: String,
    extras: Vec<&'a str>,
    url: Option<&'a str>,
    /// `>=2.6,<3`; may be empty.
    range: &'a str,
    marker: Option<&'a str>,
}

impl<'a> Requirement<'a> {
    fn parse(line: &'a str) -> Option<Requirement<'a>> {
        let line = line.split(" --").next().unwrap_or_default().trim();
        let name = package(line);
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        let mut rest = line.trim_start_matches(is_name).trim_start();
        let mut extras = Vec::new();
        if let Some(inside) = rest.strip_prefix('[') {
            let (listed, after) = inside.split_once(']')?;
            extras = listed.split(',').map(str::trim).filter(|extra| !extra.is_empty()).collect();
            rest = after.trim_start();
        }
        let is_url = rest.starts_with('@');
        // A URL may contain one; then a space comes before that of the marker.
        let marker_at = if is_url { rest.find(" ;") } else { rest.find(';') };
        let (what, marker) = match marker_at {
            Some(at) => (&rest[..at], Some(rest[at..].trim_start_matches([' ', ';']).trim())),
            None => (rest, None),
        };
        let what = what.trim();
        let (url, range) = match what.strip_prefix('@') {
            Some(url) => (Some(url.trim()), ""),
            None => (None, what.strip_prefix('(').and_then(|inside| inside.strip_suffix(')')).unwrap_or(what)),
        };
        (!name.is_empty()).then_some(Requirement { name, extras, url, range, marker })
    }
}

/// What `inventory` lacks of these lines of a requirements file, one phrase each: `torch 2.9.1 instead of torch==2.15.0`, `no numpy`.
pub(super) fn unmet(requirements: &[String], inventory: &Inventory) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in requirements {
        let (limit, line) = match line.strip_prefix("-c ") {
            Some(limit) => (true, limit),
            None => (false, line.as_str()),
        };
        let lacks = if let Some(path) = line.strip_prefix("-e ") {
            of_path(path, true, inventory)
        } else if line.starts_with("--") {
            // How to install, not what.
            Vec::new()
        } else if line.starts_with(['/', '.']) {
            of_path(line, false, inventory)
        } else {
            of_package(line, limit, inventory, DEEPEST)
        };
        for phrase in lacks {
            if !found.contains(&phrase) {
                found.push(phrase);
            }
        }
    }
    found
}

/// Whether some line has hashes, which an installed package no longer has.
pub(super) fn has_hashes(requirements: &[String]) -> bool {
    requirements.iter().any(|line| line.contains(" --hash=") || line == "--require-hashes")
}

/// The packages that these lines name.
pub(super) fn named(requirements: &[String]) -> impl Iterator<Item = String> {
    let names = requirements.iter().filter(|line| !line.starts_with(['-', '/', '.']));
    names.filter_map(|line| Requirement::parse(line)).map(|requirement| requirement.name)
}

fn of_package(line: &str, limit: bool, inventory: &Inventory, depth: usize) -> Vec<String> {
    let Some(wanted) = Requirement::parse(line) else {
        return vec![format!("`{line}`, which cannot be checked")];
    };
    match wanted.marker.map(|marker| marker::holds(marker, &inventory.markers)) {
        Some(Ok(false)) => return Vec::new(),
        Some(Err(why)) => return vec![format!("{}: {why}", wanted.name)],
        Some(Ok(true)) | None => {}
    }
    let Some(package) = inventory.packages.as_ref().and_then(|packages| packages.get(&wanted.name)) else {
        return if limit { Vec::new() } else { vec![format!("no {}", wanted.name)] };
    };
    let mut found: Vec<String> = Vec::new();
    let shown = line.split(" --").next().unwrap_or_default();
    let mut range = wanted.range;
    let asked = compiler_of_torch(&wanted, inventory);
    if let Some(asked) = &asked {
        range = asked;
    }
    let has = if package.version.is_empty() { "of unknown version" } else { &package.version };
    if let Some(url) = wanted.url {
        if !is_from(package, url) {
            found.push(format!("{} {has} from elsewhere than {url}", wanted.name));
        }
    } else if !range.is_empty() && !holds(range, &package.version) {
        found.push(format!("{} {has} instead of {}", wanted.name, if asked.is_some() { range } else { shown }));
    }
    found.extend(of_extras(&wanted.extras, package, inventory, depth));
    found
}

/// The Triton that the installed PyTorch asks for, where the requirement leaves it open.
fn compiler_of_torch(wanted: &Requirement<'_>, inventory: &Inventory) -> Option<String> {
    let open = wanted.name == COMPILER && wanted.range.is_empty() && wanted.url.is_none();
    let torch = inventory.packages.as_ref()?.get("torch").filter(|_| open)?;
    let entry = torch.requires.iter().find(|entry| package(entry) == COMPILER)?;
    Requirement::parse(entry).map(|entry| entry.range.to_owned()).filter(|range| !range.is_empty())
}

/// What the extras of an installed package ask for.
fn of_extras(extras: &[&str], package: &Package, inventory: &Inventory, depth: usize) -> Vec<String> {
    let Some(depth) = depth.checked_sub(1) else { return Vec::new() };
    let mut found = Vec::new();
    for extra in extras {
        let mut asked = inventory.clone();
        asked.markers.insert("extra".to_owned(), (*extra).to_owned());
        let of_extra = package.requires.iter().filter(|entry| {
            let marker = Requirement::parse(entry).and_then(|entry| entry.marker);
            marker.is_some_and(|marker| marker.contains("extra")) && !is_replaced(entry)
        });
        found.extend(of_extra.flat_map(|entry| of_package(entry, false, &asked, depth)));
    }
    found
}

fn holds(range: &str, version: &str) -> bool {
    match (Range::parse(range), version.parse::<Version>()) {
        (Ok(range), Ok(version)) => range.holds(&version),
        // Only `===` compares what is no version.
        _ => range.strip_prefix("===").is_some_and(|exact| exact.trim() == version),
    }
}

/// A directory or an archive, with extras.
fn of_path(path: &str, editable: bool, inventory: &Inventory) -> Vec<String> {
    let (path, extras) = match path.split_once('[') {
        Some((path, extras)) => (path, extras.trim_end_matches(']')),
        None => (path, ""),
    };
    let place = Path::new(path.strip_prefix("file://").unwrap_or(path).trim_end_matches('/'));
    let is_it = |package: &&Package| {
        let direct = package.direct.as_ref().filter(|direct| file(&direct.url).as_deref() == Some(place));
        match (direct, editable) {
            (Some(_), false) => true,
            (Some(direct), true) => direct.dir_info.as_ref().is_some_and(|info| info.editable),
            // As `setup.py develop` leaves it: imported from the directory itself, not from an environment in it.
            (None, _) => {
                let installed = |part: &std::ffi::OsStr| part == "site-packages" || part == "dist-packages";
                package.direct.is_none() && package.place.starts_with(place) && !package.place.iter().any(installed)
            }
        }
    };
    let packages = inventory.packages.iter().flat_map(|packages| packages.values());
    let Some(package) = packages.into_iter().find(is_it) else {
        let how = if editable { ", editable" } else { "" };
        return vec![format!("nothing that was installed from {}{how}", place.display())];
    };
    let extras: Vec<&str> = extras.split(',').map(str::trim).filter(|extra| !extra.is_empty()).collect();
    of_extras(&extras, package, inventory, DEEPEST)
}

/// The path of a `file:` URL.
fn file(url: &str) -> Option<PathBuf> {
    let path = url.strip_prefix("file://")?.trim_end_matches('/');
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = (*first == b'%').then(|| std::str::from_utf8(after.get(..2)?).ok()).flatten();
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    Some(OsString::from_vec(bytes).into())
}

/// Whether a package came from this URL: a file, or a repository at a revision.
fn is_from(package: &Package, url: &str) -> bool {
    let Some(direct) = &package.direct else { return false };
    let url = url.split('#').next().unwrap_or_default();
    if let Some(path) = file(url) {
        return file(&direct.url) == Some(path);
    }
    let same = |one: &str, other: &str| {
        let plain = |url: &str| url.trim_end_matches('/').trim_end_matches(".git").to_owned();
        plain(one) == plain(other)
    };
    let Some(vcs) = &direct.vcs_info else { return same(url, &direct.url) };
    let url = url.split_once('+').map_or(url, |(_, url)| url);
    let path_at = url.find("://").map_or(0, |at| at + 3);
    let path_at = url[path_at..].find('/').map_or(url.len(), |at| path_at + at);
    match url[path_at..].rfind('@').map(|at| url.split_at(path_at + at)) {
        Some((url, revision)) => {
            let revision = &revision[1..];
            same(url, &direct.url) && (vcs.requested_revision == revision || vcs.commit_id.starts_with(revision))
        }
        None => same(url, &direct.url),
    }
}

#[cfg(test)]
mod tests;
