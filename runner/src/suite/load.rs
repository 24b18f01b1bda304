//! Loads a suite from a file or text, or reports all its mistakes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use model::node::Entry;
use protocol::fault::Fault;
use protocol::plan::ClusterPlan;

use super::file::{self, Suite};
use super::gpu;
use super::mistakes::{Mistakes, SuiteError};
use super::reader::Reader;
use crate::case::Case;

/// Reads a suite file.
///
/// # Errors
/// It cannot be read, or all its mistakes.
pub fn load(file: &Path) -> Result<Suite, SuiteError> {
    let (text, dir) = read(file).map_err(|error| SuiteError::Read { file: file.to_owned(), error })?;
    parse(file, &text, &dir)
}

/// The text of a suite file, and its absolute directory.
fn read(file: &Path) -> io::Result<(String, PathBuf)> {
    let text = fs::read_to_string(file)?;
    let dir = file.canonicalize()?.parent().unwrap_or(Path::new("/")).to_owned();
    // `${{ dir }}` and the reports are text.
    if dir.to_str().is_none() {
        let why = format!("the path of its directory is not UTF-8 ({}): rename it", dir.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    Ok((text, dir))
}

/// Reads `text`, the content of `file`, in the absolute directory `dir`.
///
/// # Errors
/// All its mistakes.
pub fn parse(file: &Path, text: &str, dir: &Path) -> Result<Suite, SuiteError> {
    parse_with(file, text, dir, &mut None)
}

/// [`load`], and each case fully resolved, with the origin of every value: YAML with comments.
///
/// # Errors
/// It cannot be read, or all its mistakes.
pub fn explain(file: &Path) -> Result<Vec<(Arc<Case>, String)>, SuiteError> {
    let (text, dir) = read(file).map_err(|error| SuiteError::Read { file: file.to_owned(), error })?;
    let mut explained = Some(Vec::new());
    let suite = parse_with(file, &text, &dir, &mut explained)?;
    Ok(suite.cases.into_iter().zip(explained.unwrap_or_default()).collect())
}

/// Reads GPU events for `cluster`: `text` is the content that a case may have under `gpu`, and `name` is its name in
/// messages.
///
/// # Errors
/// All mistakes.
pub fn gpu_events(name: &str, text: &str, cluster: &ClusterPlan) -> Result<Vec<Fault>, SuiteError> {
    let reader = Reader::new(Path::new(name), text);
    let mut faults = Vec::new();
    if let Some(node) = reader.parse() {
        let entry = Entry { key: "gpu".to_owned(), key_span: node.span.clone(), node };
        gpu::read(&reader, &entry, Some(cluster), &mut faults);
    }
    let mistakes = reader.finish();
    if mistakes.is_empty() {
        return Ok(faults.into_iter().map(|fault| fault.fault).collect());
    }
    Err(SuiteError::Mistakes(Mistakes { files: vec![(text.to_owned(), mistakes)] }))
}

fn parse_with(file: &Path, text: &str, dir: &Path, explained: &mut Option<Vec<String>>) -> Result<Suite, SuiteError> {
    let reader = Reader::new(file, text);
    let mut foreign = Vec::new();
    let suite = reader.parse().and_then(|node| file::read(&reader, &node, dir, &mut foreign, explained));
    let mistakes = reader.finish();
    if let (Some(suite), true, true) = (suite, mistakes.is_empty(), foreign.is_empty()) {
        return Ok(suite);
    }
    let mut files = vec![(text.to_owned(), mistakes)];
    files.retain(|(_, mistakes)| !mistakes.is_empty());
    files.extend(foreign);
    Err(SuiteError::Mistakes(Mistakes { files }))
}
