//! Numbers that a run printed or wrote.

/// A number that a run printed or wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Number {
    /// What it is and when it was printed.
    pub key: Key,
    /// As printed.
    pub text: String,
    /// Where it was printed: `stdout of rank 0, line 7`.
    pub line: String,
}

impl Number {
    /// Its name and step.
    pub fn moment(&self) -> (&str, Option<&str>) {
        (&self.key.name, self.key.step.as_deref())
    }
}

/// What a number is and when it was printed. Two runs are compared key by key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Key {
    /// The name of its group or field.
    pub name: String,
    /// The step of the program, if it prints one.
    pub step: Option<String>,
    /// How many numbers with this name and step came before it.
    pub earlier: usize,
}
