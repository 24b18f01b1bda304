//! The pages, their blocks of code, and the code in their sentences.

use std::fs;
use std::path::Path;

/// The pages beside those of `docs/`.
const BESIDE: [&str; 6] =
    ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "packaging/README.md", "fixtures/README.md", "fuzz/README.md"];

/// A block between fences.
pub(crate) struct Block {
    /// The page, from the checkout.
    pub(crate) page: String,
    /// The line of its opening fence.
    pub(crate) line: usize,
    /// The heading that it is below.
    pub(crate) section: String,
    /// The first word after the fence.
    pub(crate) language: String,
    /// What is between the fences, without the indentation of the fence.
    pub(crate) text: String,
}

impl Block {
    /// `what` is wrong in it.
    pub(crate) fn mistake(&self, what: &str) -> String {
        format!("{}:{}: {what}", self.page, self.line)
    }
}

/// Every page with its text, but for decisions, which tell of the past.
pub(crate) fn pages(checkout: &Path) -> Vec<(String, String)> {
    let in_docs = fs::read_dir(checkout.join("docs")).unwrap().map(|entry| entry.unwrap().file_name());
    let in_docs = in_docs.filter_map(|name| name.into_string().ok()).filter(|name| name.ends_with(".md"));
    let mut names: Vec<String> = in_docs.map(|name| format!("docs/{name}")).collect();
    names.sort();
    names.extend(BESIDE.map(str::to_owned));
    names.into_iter().map(|name| (name.clone(), fs::read_to_string(checkout.join(name)).unwrap())).collect()
}

/// The blocks of a page, and its other lines with their numbers.
pub(crate) fn read(page: &str, text: &str) -> (Vec<Block>, Vec<(usize, String)>) {
    let (mut blocks, mut prose, mut section) = (Vec::new(), Vec::new(), String::new());
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let unindented = line.trim_start();
        let Some(info) = unindented.strip_prefix("```") else {
            if let Some(heading) = line.strip_prefix('#') {
                section = heading.trim_start_matches('#').trim().to_owned();
            }
            prose.push((index + 1, line.to_owned()));
            continue;
        };
        let indent = line.len() - unindented.len();
        let mut text = String::new();
        for (_, line) in lines.by_ref().take_while(|(_, line)| line.trim() != "```") {
            text.push_str(line.get(indent..).unwrap_or_default());
            text.push('\n');
        }
        let language = info.split_whitespace().next().unwrap_or_default().to_owned();
        blocks.push(Block { page: page.to_owned(), line: index + 1, section: section.clone(), language, text });
    }
    (blocks, prose)
}

/// The code in a sentence.
pub(crate) fn spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}
