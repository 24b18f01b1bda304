//! Link cuts that a case asks for, and the lines that trigger them.

use super::kills::line_of_rank;
use crate::case::Case;
use crate::case::network::Cut;
use crate::execute::network::Network;
use crate::execute::process_tree::Event;

/// The cuts of a case and which of them happened.
#[derive(Debug)]
pub(in crate::execute) struct Cuts<'a> {
    case: &'a Case,
    cuts: &'a [Cut],
    done: Vec<bool>,
    /// Messages about what was cut.
    pub(in crate::execute) notes: Vec<String>,
}

impl<'a> Cuts<'a> {
    /// No cut has happened yet.
    pub(in crate::execute) fn new(case: &'a Case) -> Cuts<'a> {
        let cuts = case.network.as_ref().map(|network| &network.cuts[..]).unwrap_or_default();
        Cuts { case, cuts, done: vec![false; cuts.len()], notes: Vec::new() }
    }

    /// Looks at a line and makes the cuts it triggers.
    pub(in crate::execute) fn observe(&mut self, event: &Event, network: &Network) {
        let Event::Line(role, line) = event else { return };
        let Some((rank, text)) = line_of_rank(self.case, *role, line) else { return };
        for (cut, done) in self.cuts.iter().zip(&mut self.done) {
            if !*done && cut.watch == rank && cut.output.is_match(text) {
                *done = true;
                let text = String::from_utf8_lossy(text);
                let what = network.cut(cut.what, cut.lasts, cut.resets);
                self.notes.push(format!("{}: {what} when rank {rank} wrote {text:?}", cut.place));
            }
        }
    }

    /// Messages about the cuts that never happened.
    pub(in crate::execute) fn missed(&self) -> impl Iterator<Item = String> {
        let missed = self.cuts.iter().zip(&self.done).filter(|(_, done)| !**done);
        missed.map(|(cut, _)| {
            let output = cut.output.as_str();
            format!("{}: rank {} never wrote a line that matches /{output}/", cut.place, cut.watch)
        })
    }
}
