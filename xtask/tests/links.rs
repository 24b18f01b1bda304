//! Links between the pages lead somewhere, those of the book into the book, and the book has every page.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The pages in `directory` and below.
fn pages(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// Lines outside of blocks of code.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        is_code ^= fence;
        !is_code && !fence
    })
}

/// What a page can be linked to at: its headings as GitHub names them, and its own anchors.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, line) in prose(text) {
        for part in line.split("<a id=\"").skip(1) {
            found.extend(part.split('"').next().map(str::to_owned));
        }
        let heading = line.trim_start_matches('#');
        if heading.len() < line.len() && heading.starts_with(' ') {
            let kept = heading.trim().chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
            found.insert(kept.collect::<String>().to_lowercase().replace(' ', "-"));
        }
    }
    found
}

/// The targets of the links in a line, outside of code.
fn targets(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (index, part) in line.split('`').enumerate() {
        // A label may be code; the target follows in the next part then.
        let rest = if index % 2 == 0 { part } else { continue };
        found.extend(rest.split("](").skip(1).filter_map(|link| link.split([')', ' ']).next()));
    }
    found
}

#[test]
fn links_lead_to_a_file_and_an_anchor_that_are_there() {
    let root = root();
    let book = root.join("docs").canonicalize().unwrap();
    let mut all: Vec<PathBuf> =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|name| root.join(name)).into();
    pages(&root.join("docs"), &mut all);
    let texts: BTreeMap<PathBuf, String> =
        all.iter().map(|page| (page.canonicalize().unwrap(), fs::read_to_string(page).unwrap())).collect();
    let mut checked = 0;
    let mut broken = Vec::new();
    for (page, text) in &texts {
        for (line, target) in
            prose(text).flat_map(|(line, text)| targets(text).into_iter().map(move |target| (line, target)))
        {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            checked += 1;
            let (file, anchor) = target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
            let place = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            let there = place.canonicalize().ok().filter(|place| {
                // A page of the book has no others beside it.
                if page.starts_with(&book) && !place.starts_with(&book) {
                    return false;
                }
                // Anchors of other files than pages are lines.
                anchor.is_none_or(|anchor| texts.get(place).is_none_or(|text| anchors(text).contains(anchor)))
            });
            if there.is_none() {
                broken.push(format!("{}:{}: {target}", page.strip_prefix(&root).unwrap_or(page).display(), line + 1));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
    assert!(checked > 200, "only {checked} links were found");
}

#[test]
fn the_book_has_every_page_once() {
    let docs = root().join("docs");
    let mut all = Vec::new();
    pages(&docs, &mut all);
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let names = all.iter().filter_map(|page| page.strip_prefix(&docs).ok()).map(|page| page.display().to_string());
    for name in names.filter(|name| name != "SUMMARY.md") {
        assert_eq!(summary.matches(&format!("({name})")).count(), 1, "docs/SUMMARY.md and {name}");
    }
}

#[test]
fn headings_and_links_are_read_as_github_does() {
    let text = "# The `a` key: 1.5\n<a id=\"own\"></a>\n```\n# not this\n```\n";
    assert_eq!(anchors(text), ["own", "the-a-key-15"].map(str::to_owned).into());
    assert_eq!(targets("see [a](b.md#c), [`x`](y.md) and `[no](z.md)`"), ["b.md#c", "y.md"]);
}
