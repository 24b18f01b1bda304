//! What a program asks to be looked for beside its results (`FAKEGPU_SANITIZE`): so far races between streams.

mod clock;
pub(crate) mod races;
mod shadow;
