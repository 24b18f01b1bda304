//! A gap that ends a call: who counts gaps, and when one is an error, is the library's matter.

use crate::library::Library;

/// A use of something unsupported that is an error: the library's NotSupported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused(pub Library);

impl From<Refused> for u32 {
    fn from(refused: Refused) -> Self {
        refused.0.not_supported()
    }
}
