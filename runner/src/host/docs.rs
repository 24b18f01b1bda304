//! The documentation that comes with ftest: its pages, and sections of a page.

use std::fs;
use std::path::{Path, PathBuf};

use super::install::{Install, Missing};

/// The page about findings, which reports quote.
const FINDINGS: &str = include_str!("../../../docs/findings.md");

/// How a message cites a section about findings.
pub fn finding(section: &str) -> String {
    format!("`ftest docs findings#{section}`")
}

/// The sections about findings that a text cites, and what they say.
pub fn cited(text: &str) -> impl Iterator<Item = (&str, &'static str)> {
    let names = text.split("ftest docs findings#").skip(1);
    names.filter_map(|rest| {
        let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_' && letter != '-');
        let name = &rest[..end.unwrap_or(rest.len())];
        Some((name, section(FINDINGS, name)?))
    })
}

/// A page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// What `ftest docs` calls it: `suites`, `adr/shim`.
    pub name: String,
    /// Its first heading.
    pub title: String,
    /// Its file.
    pub file: PathBuf,
}

/// All pages, by name.
///
/// # Errors
/// [`Missing`].
pub fn pages(install: &Install) -> Result<Vec<Page>, Missing> {
    let root = install.docs()?;
    let mut pages = Vec::new();
    for (directory, prefix) in [(root.clone(), ""), (root.join("adr"), "adr/")] {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let file = entry.path();
            let Some(name) = file.file_name().and_then(|name| name.to_str()?.strip_suffix(".md")) else { continue };
            // The table of contents of the book.
            if name != "SUMMARY" {
                pages.push(Page { name: format!("{prefix}{name}"), title: title(&file), file: file.clone() });
            }
        }
    }
    pages.sort_by(|one, other| (one.name.contains('/'), &one.name).cmp(&(other.name.contains('/'), &other.name)));
    Ok(pages)
}

fn title(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or_default().to_owned()
}

/// The section of a Markdown page under the heading whose anchor this is, with its subsections; without the `<a id>` of the
/// next one.
pub fn section<'t>(text: &'t str, anchor: &str) -> Option<&'t str> {
    let mut found: Option<(usize, usize)> = None;
    let (mut at, mut in_code) = (0, false);
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        in_code ^= line.starts_with("```");
        let depth = line.bytes().take_while(|byte| *byte == b'#').count();
        let is_heading = !in_code && depth > 0 && line[depth..].starts_with(' ');
        match found {
            Some((begin, above)) if is_heading && depth <= above => return Some(text[begin..start].trim_end()),
            None if is_heading && slug(&line[depth..]) == anchor => found = Some((start, depth)),
            None if line.contains(&format!("id=\"{anchor}\"")) => found = Some((at, 6)),
            _ => {}
        }
    }
    found.map(|(begin, _)| text[begin..].trim_end())
}

/// The anchors of a page's headings, in order.
pub fn anchors(text: &str) -> Vec<String> {
    let mut in_code = false;
    let mut anchors = Vec::new();
    for line in text.lines() {
        in_code ^= line.starts_with("```");
        if !in_code && line.starts_with('#') {
            anchors.push(slug(line.trim_start_matches('#')));
        }
    }
    anchors
}

/// The anchor of a heading, as GitHub makes it.
fn slug(heading: &str) -> String {
    let letters = heading.trim().to_lowercase();
    letters
        .chars()
        .filter(|letter| letter.is_alphanumeric() || "-_ ".contains(*letter))
        .collect::<String>()
        .replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use protocol::finding::WORDS;

    use super::*;

    #[test]
    fn a_section_ends_where_the_next_begins() {
        let text =
            "# A\none\n## B c\ntwo\n```sh\n# not a heading\n```\n### D\nthree\n<a id=\"x\"></a>\nfour\n## E\nfive\n";
        assert_eq!(
            section(text, "b-c").unwrap(),
            "## B c\ntwo\n```sh\n# not a heading\n```\n### D\nthree\n<a id=\"x\"></a>\nfour"
        );
        assert_eq!(section(text, "e").unwrap(), "## E\nfive");
        assert_eq!(section(text, "x").unwrap(), "four");
        assert_eq!(section(text, "f"), None);
        assert_eq!(anchors(text), ["a", "b-c", "d", "e"]);
    }

    #[test]
    fn every_kind_of_finding_has_the_section_that_messages_cite() {
        for word in WORDS {
            let text = format!("next: do this ({})", finding(word));
            let found: Vec<_> = cited(&text).collect();
            assert_eq!(found.len(), 1, "{text}");
            assert!(found[0].0 == *word && found[0].1.starts_with(&format!("### {word}")), "{found:?}");
        }
        assert_eq!(cited(&finding("order")).count(), 1);
        assert_eq!(cited("ftest docs findings#nothing").count(), 0);
    }
}
