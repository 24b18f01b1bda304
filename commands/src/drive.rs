//! `ftest run --drive`: another program tells on standard input which case to start when, and reads events from standard
//! output, see `Reports::printing_events`.

use std::collections::HashMap;
use std::io::BufRead;
use std::sync::Arc;

use runner::case::Case;
use tokio::sync::mpsc::{self, UnboundedReceiver};

/// The indices of the cases whose ids arrive on standard input, in that order. Ends at the end of input, or at a line that is not
/// the id of a case still to run; that line is printed on stderr.
pub(super) fn asked(cases: &[Arc<Case>]) -> UnboundedReceiver<usize> {
    let mut places: HashMap<String, usize> =
        cases.iter().enumerate().map(|(place, case)| (case.full_id(), place)).collect();
    let (sender, asked) = mpsc::unbounded_channel();
    // A thread, because a read of standard input cannot be cancelled: tokio's would keep the runtime from shutting
    // down.
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let Some(place) = places.remove(&line) else {
                eprintln!("ftest: --drive: `{line}` is not the id of a case that is still to run");
                break;
            };
            if sender.send(place).is_err() {
                break;
            }
        }
    });
    asked
}
