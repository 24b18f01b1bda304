//! In a backward pass, the line of the operator whose derivative is being computed, for the messages of findings.

use std::cell::Cell;

use protocol::ids::SiteId;

use super::source_line;

thread_local! {
    static NOW: Cell<SiteId> = const { Cell::new(SiteId(0)) };
}

/// Until dropped, this thread computes the derivative of an operator called at a line.
#[derive(Debug)]
pub(crate) struct During(SiteId);

impl During {
    /// The line is 0 if unknown, or outside backward passes.
    pub(crate) fn begin(site: SiteId) -> Self {
        Self(NOW.replace(site))
    }
}

impl Drop for During {
    fn drop(&mut self) {
        NOW.set(self.0);
    }
}

/// The line for this thread's current work.
pub(super) fn now() -> SiteId {
    NOW.get()
}

/// ` (backward of model.py:12)`, or nothing.
pub(super) fn words(site: SiteId) -> String {
    source_line::within("backward of", site)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_counts() {
        let outer = During::begin(SiteId(7));
        {
            let _inner = During::begin(SiteId(8));
            assert_eq!(now(), SiteId(8));
        }
        assert_eq!(now(), SiteId(7));
        drop(outer);
        assert_eq!((now(), words(now())), (SiteId::default(), String::new()));
    }
}
