//! The sanitizers: what is checked in addition to a program's results.

use crate::env::{self, BadValue};

macro_rules! sanitizers {
    ($($(#[$doc:meta])* $name:ident $word:literal)*) => {
        /// The requested sanitizers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Sanitizers { $($(#[$doc])* pub $name: bool,)* }

        /// Their words in FAKEGPU_SANITIZE and in `sanitize` of a suite.
        pub const WORDS: &[&str] = &[$($word),*];

        impl Sanitizers {
            /// None of them.
            pub const OFF: Self = Self { $($name: false),* };

            /// The words of the requested sanitizers.
            pub fn words(&self) -> Vec<&'static str> {
                let all = [$((self.$name, $word)),*];
                all.into_iter().filter(|(is_wanted, _)| *is_wanted).map(|(_, word)| word).collect()
            }

            /// Turns on the sanitizer `WORDS[word]`; any other number changes nothing.
            pub fn add(&mut self, word: usize) {
                if let Some(switch) = [$(&mut self.$name),*].get_mut(word) {
                    **switch = true;
                }
            }
        }
    };
}

sanitizers! {
    /// Unordered accesses of two streams to the same memory.
    races "races"
    /// Reads of device memory that nobody has written since it was allocated; in kernels, also of shared memory.
    init "init"
    /// Operators that make NaN or Inf from finite numbers.
    finite "finite"
    /// Replicas of a data-parallel group that differ after an optimizer step.
    replicas "replicas"
    /// Kernels that touch memory past the blocks that PyTorch's allocator handed out, or next to an allocation.
    memory "memory"
    /// Threads of a block that touch the same shared memory without a barrier in between.
    shared_races "shared-races"
    /// Threads of a block that wait at different barriers, and warp masks that do not match.
    sync "sync"
}

impl Sanitizers {
    /// Reads a value of FAKEGPU_SANITIZE: words separated by commas.
    ///
    /// # Errors
    /// [`BadValue`] for a word that is not one of [`WORDS`] or [`NONE`].
    pub fn parse(value: &str) -> Result<Self, BadValue> {
        let words = [WORDS, &[NONE]].concat();
        let mut wanted = Self::OFF;
        for word in value.split(',') {
            wanted.add(env::SANITIZE.choose(word, &words)?);
        }
        Ok(wanted)
    }
}

/// The word for replicas that differ.
pub const REPLICAS: &str = "replicas";

/// The word for none of them, in FAKEGPU_SANITIZE.
pub const NONE: &str = "none";

impl Default for Sanitizers {
    /// Only the sanitizers that cost next to nothing.
    fn default() -> Self {
        Self { races: true, replicas: true, ..Self::OFF }
    }
}
