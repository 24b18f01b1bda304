//! `ftest docs`: the pages of the documentation, one of them, or a section.

use std::io::Write;

use clap::Args;
use runner::host::docs::{self, Page};
use runner::host::install::Install;
use runner::host::output;
use runner::suite::did_you_mean;
use runner::verdict::exit_code::ExitCode;

/// Arguments of `ftest docs`.
#[derive(Args, Clone, Debug)]
pub struct DocsArgs {
    /// A page, or a section of one: `suites`, `findings#race` [default: list the pages]
    #[arg(value_name = "PAGE[#SECTION]")]
    pub page: Option<String>,
    /// Print where the file is, instead of the text
    #[arg(long)]
    pub path: bool,
}

/// Runs the command.
pub fn run(arguments: &DocsArgs) -> ExitCode {
    match text(&Install::find(), arguments) {
        Ok(text) => {
            // A closed pipe (`| head`) is the reader's choice.
            let _ = output::stdout().write_all(text.as_bytes());
            ExitCode::Passed
        }
        Err((code, why)) => {
            eprintln!("ftest docs: {why}");
            code
        }
    }
}

fn text(install: &Install, arguments: &DocsArgs) -> Result<String, (ExitCode, String)> {
    let pages = docs::pages(install).map_err(|missing| (ExitCode::CouldNotRun, missing.to_string()))?;
    let Some(wanted) = &arguments.page else {
        let root = install.docs().map_err(|missing| (ExitCode::CouldNotRun, missing.to_string()))?;
        return Ok(if arguments.path { format!("{}\n", root.display()) } else { table(&pages) });
    };
    // As a link of a page names it.
    let (name, anchor) = wanted.split_once('#').map_or((wanted.as_str(), None), |(name, anchor)| (name, Some(anchor)));
    let name = name.trim_start_matches("docs/").trim_end_matches(".md");
    let Some(page) = pages.iter().find(|page| page.name == name) else {
        let help = did_you_mean(name, pages.iter().map(|page| page.name.as_str()));
        return Err((ExitCode::Usage, format!("there is no page `{name}`; {help}; `ftest docs` lists them")));
    };
    if arguments.path {
        return Ok(format!("{}\n", page.file.display()));
    }
    let text = std::fs::read_to_string(&page.file)
        .map_err(|error| (ExitCode::CouldNotRun, format!("{}: {error}", page.file.display())))?;
    let Some(anchor) = anchor else { return Ok(text) };
    docs::section(&text, anchor).map(|section| format!("{section}\n")).ok_or_else(|| {
        let anchors = docs::anchors(&text);
        let help = did_you_mean(anchor, anchors.iter().map(String::as_str));
        (ExitCode::Usage, format!("the page `{name}` has no section `{anchor}`; {help}"))
    })
}

fn table(pages: &[Page]) -> String {
    let width = pages.iter().map(|page| page.name.len()).max().unwrap_or_default();
    let lines = pages.iter().map(|page| format!("{:width$}  {}\n", page.name, page.title));
    lines.chain(["\n`ftest docs PAGE` prints one, `ftest docs PAGE#SECTION` a section.\n".to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn pages_are_found_in_an_installation_and_in_a_checkout() {
        for place in ["share/ftest/docs", "docs"] {
            let root = tempfile::tempdir().unwrap();
            let directory = root.path().join(place);
            fs::create_dir_all(directory.join("adr")).unwrap();
            fs::write(directory.join("findings.md"), "# Findings\nall\n## Race\ntext\n").unwrap();
            fs::write(directory.join("adr/shim.md"), "# The shim\n").unwrap();
            let install = Install::around(None, &root.path().join("bin/ftest"));
            let of = |page: Option<&str>, path: bool| {
                text(&install, &DocsArgs { page: page.map(str::to_owned), path })
                    .map_err(|(code, why)| (code as i32, why))
            };
            let listed = of(None, false).unwrap();
            assert!(listed.starts_with("findings  Findings\nadr/shim  The shim\n"), "{listed}");
            assert_eq!(of(Some("findings#race"), false).unwrap(), "## Race\ntext\n");
            assert_eq!(of(Some("docs/findings.md"), false).unwrap(), "# Findings\nall\n## Race\ntext\n");
            assert_eq!(of(Some("adr/shim"), true).unwrap(), format!("{}\n", directory.join("adr/shim.md").display()));
            assert_eq!(of(None, true).unwrap(), format!("{}\n", directory.display()));
            for (wrong, part) in [("finding", "`findings`"), ("findings#rase", "`race`")] {
                let (code, why) = of(Some(wrong), false).unwrap_err();
                assert!(code == 2 && why.contains(part), "{why}");
            }
        }
    }
}
