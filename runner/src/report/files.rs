//! Reports on a run as a whole, made once it has ended or from its record.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::host::output;
use crate::host::variable;
use crate::record::Run;
use crate::report::html::Limits;
use crate::report::{github, html, junit_file, markdown, trace};

/// Maximum size of a Markdown file, bytes.
const MARKDOWN_LIMIT: usize = 8 << 20;

/// Which of these reports are wanted.
#[derive(Args, Clone, Debug, Default)]
pub struct FileArgs {
    /// Write the run as a single HTML page to this file
    #[arg(long, value_name = "FILE", help_heading = "Reports")]
    pub html: Option<PathBuf>,
    /// Write a trace for ui.perfetto.dev and chrome://tracing to this file
    #[arg(long, value_name = "FILE", help_heading = "Reports")]
    pub trace: Option<PathBuf>,
    /// Write a summary in Markdown to this file
    #[arg(long, value_name = "FILE", help_heading = "Reports")]
    pub markdown: Option<PathBuf>,
    /// Annotations, groups and a job summary for GitHub (as always when GITHUB_ACTIONS is set)
    #[arg(long, help_heading = "Reports")]
    pub github: bool,
    /// Standard output belongs to somebody else: no annotations.
    #[arg(skip)]
    pub quiet: bool,
}

impl FileArgs {
    /// Whether reports go to GitHub.
    pub fn to_github(&self) -> bool {
        self.github || github::is_on()
    }

    /// Whether any requested report compares with the previous run.
    pub fn compares(&self) -> bool {
        self.html.is_some() || self.markdown.is_some() || self.to_github()
    }

    /// Writes the requested reports. `before` is a run to compare with.
    ///
    /// # Errors
    /// One sentence for each report that could not be written; the others are written.
    pub fn write(&self, run: &Run, before: Option<&Run>) -> Result<(), Vec<String>> {
        let mut mistakes = Vec::new();
        let mut put = |what: &str, path: &Path, text: Result<String, String>| {
            let written = text.and_then(|text| junit_file::write(path, &text).map_err(|error| error.to_string()));
            if let Err(error) = written {
                mistakes.push(format!("cannot write the {what} {}: {error}", path.display()));
            }
        };
        if let Some(path) = &self.html {
            let page = html::page(run, before, Limits::default()).map_err(|error| format!("{error:#}"));
            put("HTML page", path, page);
        }
        if let Some(path) = &self.trace {
            put("trace", path, Ok(trace::render(run)));
        }
        if let Some(path) = &self.markdown {
            put("summary", path, Ok(markdown::render(run, before, MARKDOWN_LIMIT)));
        }
        if self.to_github() {
            if !self.quiet {
                let workspace = variable::get("GITHUB_WORKSPACE").map(PathBuf::from);
                let text = github::annotations(run, workspace.as_deref());
                // A closed stdout is not an error: the exit code still has the result.
                let _ = output::stdout().write_all(text.as_bytes());
            }
            if let Err(error) = github::add_summary(|limit| markdown::render(run, before, limit)) {
                mistakes.push(error);
            }
        }
        if mistakes.is_empty() { Ok(()) } else { Err(mistakes) }
    }
}
