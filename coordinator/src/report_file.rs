//! The report on disk, never half written: a temporary file beside it is renamed to it.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use model::cluster::Cluster;
use model::cluster::report::RunFacts;
use model::report_markdown;

/// Where reports go.
#[derive(Debug)]
pub(crate) struct ReportFile {
    pub(crate) json: PathBuf,
    pub(crate) markdown: Option<PathBuf>,
    pub(crate) facts: RunFacts,
}

/// A report that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the cluster report {path}: {source}")]
pub struct ReportError {
    path: PathBuf,
    source: io::Error,
}

impl ReportFile {
    /// Writes the report as of now.
    pub(crate) fn write(&self, cluster: &Cluster) -> Result<(), ReportError> {
        let report = cluster.report(&self.facts);
        let mut json = serde_json::to_string_pretty(&report).expect("a report has only text keys");
        json.push('\n');
        replace(&self.json, json.as_bytes())?;
        if let Some(markdown) = &self.markdown {
            let name = self.json.display().to_string();
            replace(markdown, report_markdown::render(&report, &name).as_bytes())?;
        }
        Ok(())
    }
}

fn replace(path: &Path, content: &[u8]) -> Result<(), ReportError> {
    let failed = |source| ReportError { path: path.to_owned(), source };
    // A device or pipe (`/dev/null`) is written to; a rename would put a file in its place.
    if fs::metadata(path).is_ok_and(|target| !target.is_file()) {
        return fs::write(path, content).map_err(failed);
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The file has the usual mode of a new one under the user's umask, not the private one of temporary files.
    let mut file = tempfile::Builder::new()
        .prefix(".cluster-report-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory)
        .map_err(failed)?;
    file.write_all(content).map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The report goes through a link, so that a bug destroys the link and not the machine's `/dev/null`.
    #[test]
    fn a_device_stays_a_device() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("report.json");
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        replace(&path, b"{}").unwrap();
        assert!(fs::symlink_metadata(&path).unwrap().is_symlink(), "the link was replaced by a file");
    }
}
