//! nvidia-smi's subcommands as data: the options of each, and the answer to an option. `dmon` and `pmon`, which run
//! continuously, are in `monitor`.

use crate::Failure;
use crate::gpu::Machine;

/// The output, and nvidia-smi's return value.
pub(crate) type Answer = (String, u8);

/// Makes an answer from the GPUs and the given options.
pub(crate) type Make = fn(&Machine<'_>, &Given) -> Answer;

/// A subcommand.
#[derive(Debug)]
pub(crate) struct Subcommand {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) options: &'static [Choice],
    /// Its answer without an option; if `None`, its help.
    pub(crate) alone: Option<Make>,
    /// Whether `-i` selects the GPUs. Otherwise it is an ordinary value.
    pub(crate) chooses: bool,
}

/// An option of a subcommand.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) names: &'static [&'static str],
    pub(crate) takes_value: bool,
    pub(crate) about: &'static str,
    /// If `None`, the option only modifies another one.
    pub(crate) make: Option<Make>,
}

/// An option that has an answer.
pub(crate) const fn answers(names: &'static [&'static str], about: &'static str, make: Make) -> Choice {
    Choice { names, takes_value: false, about, make: Some(make) }
}

/// An option that has an answer and takes a value.
pub(crate) const fn answers_for(names: &'static [&'static str], about: &'static str, make: Make) -> Choice {
    Choice { names, takes_value: true, about, make: Some(make) }
}

/// A value for other options.
pub(crate) const fn value(names: &'static [&'static str], about: &'static str) -> Choice {
    Choice { names, takes_value: true, about, make: None }
}

/// The options that were given, by their first name, and their values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Given(pub(crate) Vec<(&'static str, String)>);

impl Given {
    /// The value of an option; empty if it takes none.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(given, _)| *given == name).map(|(_, value)| value.as_str())
    }
}

/// A subcommand with what was given.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) given: Given,
    make: Make,
}

// An answer is determined by the given options.
impl PartialEq for Call {
    fn eq(&self, other: &Self) -> bool {
        self.given == other.given
    }
}

impl Eq for Call {}

impl Subcommand {
    /// Its help.
    pub(crate) fn help(&self) -> String {
        let (name, about) = (self.name, self.about);
        let mut text =
            format!("\n    {name} -- {about}\n\n    Usage: nvidia-smi {name} [options]\n\n    Options include:\n");
        for choice in self.options {
            text += &format!("    [{}]: {}\n", choice.names.join(" | "), choice.about);
        }
        text + "    [-h | --help]: Display help information\n\n"
    }

    /// The requested answer; `None` for the help.
    pub(crate) fn call(&self, given: Given) -> Option<Call> {
        let asked = given.0.iter().find_map(|(name, _)| {
            let choice = self.options.iter().find(|choice| choice.names[0] == *name)?;
            choice.make
        });
        asked.or(self.alone).map(|make| Call { given, make })
    }
}

impl Call {
    /// What is printed.
    ///
    /// # Errors
    /// The same with the return value, if that is not 0.
    pub(crate) fn answer(&self, machine: &Machine<'_>) -> Result<String, Failure> {
        let (text, code) = (self.make)(machine, &self.given);
        if code == 0 {
            return Ok(text);
        }
        // A failure is printed as a line.
        Err(Failure { message: text.strip_suffix('\n').unwrap_or(&text).to_owned(), code })
    }
}
