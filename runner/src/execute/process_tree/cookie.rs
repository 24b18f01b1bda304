//! The mark that every process of a case carries in its environment, so that none is missed when the case ends.

use std::fmt;

/// The part of the cookie that the coordinator carries.
pub const COORDINATOR: &str = "coordinator";

/// A path of words, `run/case`: a mark belongs to each of its prefixes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cookie(String);

impl Cookie {
    /// The mark of a new run. It is below the mark of an outer run, so that ending the outer run also ends this one's
    /// processes.
    pub fn run() -> Cookie {
        let own = random_word();
        match std::env::var(protocol::env::COOKIE.name) {
            Ok(outer) if !outer.is_empty() => Cookie(format!("{outer}/{own}")),
            _ => Cookie(own),
        }
    }

    /// The mark as written in an environment.
    pub fn from_text(text: impl Into<String>) -> Cookie {
        Cookie(text.into())
    }

    /// A part of this run.
    pub fn part(&self, name: impl fmt::Display) -> Cookie {
        Cookie(format!("{}/{name}", self.0))
    }

    /// Whether a process marked `mark` belongs to this run or part.
    pub fn covers(&self, mark: &str) -> bool {
        mark.strip_prefix(self.0.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// Whether a mark belongs to a case's coordinator.
pub(super) fn is_of_a_coordinator(mark: &str) -> bool {
    mark.rsplit('/').next() == Some(COORDINATOR)
}

impl fmt::Display for Cookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// 32 unguessable hexadecimal digits.
pub fn random_word() -> String {
    let mut bytes = [0u8; 16];
    // From the kernel's generator; a machine without it has no /proc either, and nothing here would work.
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).expect("the kernel gives random bytes");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_covers_itself_and_its_parts_only() {
        let run = Cookie::from_text("outer/run");
        assert!(run.covers("outer/run"));
        assert!(run.covers(&run.part(1).to_string()));
        assert!(!run.part(1).covers("outer/run/12"));
        assert!(!run.covers("outer"));
        assert_ne!(random_word(), random_word());
    }
}
