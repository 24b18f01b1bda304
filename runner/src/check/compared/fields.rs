//! Which numbers of which files are compared, and a number as a file has it.

/// Which numbers of which files.
#[derive(Clone, Debug)]
pub struct Files {
    /// A glob, of names or of paths from `FTEST_SCRATCH`.
    pub glob: String,
    /// Names of numbers: keys of JSON, columns of a CSV file, tags of TensorBoard.
    pub fields: Vec<String>,
    /// The key or column that has the step.
    pub step: String,
}

/// A number in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// One of [`Files::fields`].
    pub(super) field: String,
    /// The step, if the record has one.
    pub(super) step: Option<String>,
    /// As written.
    pub(super) text: String,
    /// Where in the file: `line 7`.
    pub(super) place: String,
}

/// Notes the name of a number, once.
pub(super) fn note(there: &mut Vec<String>, name: &str) {
    if !there.iter().any(|known| known == name) {
        there.push(name.to_owned());
    }
}
