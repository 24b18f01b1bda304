//! Limits of the operating system in words: which of them caused an error, and what to do about it. Error numbers are
//! Linux's.

use std::fmt;

/// A limit on processes (`getrlimit`) that the environment sets and that a program can do nothing about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// `RLIMIT_AS`.
    AddressSpace,
    /// `RLIMIT_FSIZE`.
    FileSize,
    /// `RLIMIT_NOFILE`.
    Descriptors,
    /// `RLIMIT_NPROC`.
    Processes,
    /// `RLIMIT_CPU`.
    CpuTime,
}

const EAGAIN: i32 = 11;
const ENOMEM: i32 = 12;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
const EFBIG: i32 = 27;
const ENOSPC: i32 = 28;

impl Limit {
    /// Its name in a shell.
    pub fn flag(self) -> &'static str {
        match self {
            Limit::AddressSpace => "ulimit -v",
            Limit::FileSize => "ulimit -f",
            Limit::Descriptors => "ulimit -n",
            Limit::Processes => "ulimit -u",
            Limit::CpuTime => "ulimit -t",
        }
    }

    /// Its unit, to follow a number.
    fn unit(self) -> &'static str {
        match self {
            Limit::AddressSpace | Limit::FileSize => " bytes",
            Limit::Descriptors | Limit::Processes => "",
            Limit::CpuTime => " s",
        }
    }

    /// What to do if it is `value`.
    pub fn advice(self, value: u64) -> String {
        format!("the limit on {self} (`{}`) is {value}{}: raise it", self.flag(), self.unit())
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Limit::AddressSpace => "address space",
            Limit::FileSize => "the size of files",
            Limit::Descriptors => "open descriptors",
            Limit::Processes => "the user's processes",
            Limit::CpuTime => "processor time",
        })
    }
}

/// What to do about a system call that failed with `errno`, if a resource ran out; `value_of` gives the limits that are set. None
/// for every other error.
pub fn advice(errno: i32, value_of: impl Fn(Limit) -> Option<u64>) -> Option<String> {
    let limit = match errno {
        EAGAIN => Limit::Processes,
        ENOMEM => Limit::AddressSpace,
        EMFILE => Limit::Descriptors,
        EFBIG => Limit::FileSize,
        ENFILE => return Some("the machine has no descriptor left (/proc/sys/fs/file-max)".to_owned()),
        ENOSPC => return Some("the disk is full: make room there".to_owned()),
        _ => return None,
    };
    let advice = match value_of(limit) {
        Some(value) => limit.advice(value),
        None if limit == Limit::AddressSpace => {
            "the machine, or the container, is out of memory: give it more, or run fewer processes at once".to_owned()
        }
        None if limit == Limit::Processes => {
            "the machine, or the container (pids.max), allows no more processes and threads: raise that, or run fewer at once"
                .to_owned()
        }
        None => format!("a limit on {limit} is reached: raise it"),
    };
    Some(advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_for_want_of_something_has_advice_and_no_other() {
        let set = |limit| (limit == Limit::AddressSpace).then_some(8_192);
        assert_eq!(advice(12, set).unwrap(), "the limit on address space (`ulimit -v`) is 8192 bytes: raise it");
        assert!(advice(11, set).unwrap().contains("pids.max"));
        assert!(advice(12, |_| None).unwrap().contains("out of memory"));
        assert!(advice(28, set).unwrap().contains("full"));
        assert_eq!(advice(2, set), None);
        assert_eq!(advice(111, set), None);
    }
}
