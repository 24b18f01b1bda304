//! `ftest run --drive`: another program says on standard input which case starts when. It reads what happened on standard
//! output, see `Reports::printing_events`.

use std::collections::HashMap;
use std::io::BufRead;
use std::sync::Arc;

use tokio::sync::mpsc::{self, UnboundedReceiver};

use crate::case::Case;

/// The places of the cases whose ids come on standard input, in that order. Ends with the input, and at a line that is not the id
/// of a case that is still to run: stderr says which.
pub(super) fn asked(cases: &[Arc<Case>]) -> UnboundedReceiver<usize> {
    let mut places: HashMap<String, usize> =
        cases.iter().enumerate().map(|(place, case)| (case.full_id(), place)).collect();
    let (sender, asked) = mpsc::unbounded_channel();
    // A thread, because a read of standard input cannot be given up: tokio's would keep the runtime from ending.
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
