//! The memory of a run as Markdown: by rank and purpose, and by line of the program.

use super::observed::{Allocator, Line, RankRun, Use};
use super::report::Run;
use super::size::{gib, signed};

/// Lines of the program that are shown.
const LINES: usize = 10;

impl Run {
    /// The value that was probed, after a comma.
    pub(super) fn probed(&self) -> String {
        self.probe.as_ref().map(|probe| format!(", {probe}")).unwrap_or_default()
    }

    /// What each process had of each GPU, and by which lines if `shows_lines`.
    pub(super) fn table(&self, shows_lines: bool) -> String {
        let has_stages = self.ranks.iter().any(|run| run.stage.is_some());
        let stage = if has_stages { " stage |" } else { "" };
        let verdict = if self.ranks.is_empty() { "" } else { " left | verdict |" };
        let mut text = format!(
            "| rank |{stage} peak | reserved | taken on the GPU | parameters | gradients | optimizer state | other |{verdict}\n"
        );
        text += &format!("{}\n", "|---".repeat(text.matches('|').count() - 1) + "|");
        for device in &self.uses {
            let own = self.ranks.iter().find(|run| Some(run.rank) == device.rank);
            text += &format!("| {} |", number(device.rank));
            if has_stages {
                text += &format!(" {} |", number(own.and_then(|run| run.stage)));
            }
            text += &device.figures();
            if let Some(run) = own {
                let left = run.headroom_bytes.map(signed).unwrap_or_default();
                text += &format!(" {left} | {} |", run.verdict.words());
            }
            text.push('\n');
        }
        text += "\nPeak is `torch.cuda.max_memory_allocated()`, reserved is `torch.cuda.max_memory_reserved()`; the GPU also holds \
                 the context. What was held at the peak is divided by purpose; other are activations, buffers and workspaces.\n\n";
        for run in &self.ranks {
            let RankRun { rank, is_asked_for, needed_bytes, verdict, stopped_after, .. } = run;
            text += &match (is_asked_for, stopped_after) {
                (true, None) => continue,
                (true, Some(steps)) => format!(
                    "Rank {rank} was stopped after {steps} steps of its optimizers, as `--steps` says: the figures are of these.\n\n"
                ),
                (false, Some(_)) => {
                    format!("Rank {rank} ran only for what the others get from it, and not to its end.\n\n")
                }
                (false, None) => format!(
                    "Rank {rank} ran only for what the others get from it; it needs {}: {}.\n\n",
                    gib(*needed_bytes),
                    verdict.words()
                ),
            };
        }
        let most = self.uses.iter().max_by_key(|device| device.taken_peak);
        let is_shown = |device: &&Use| shows_lines && (!self.ranks.is_empty() || Some(*device) == most);
        let detailed = self.uses.iter().filter(is_shown);
        for device in detailed {
            let Some(torch) = device.torch.as_ref().filter(|torch| !torch.at_peak.is_empty()) else { continue };
            let whose = device.rank.filter(|_| !self.ranks.is_empty()).map(|rank| format!(" by rank {rank}"));
            text += &format!("What was held at the peak{}, by line:\n\n", whose.unwrap_or_default());
            text += &torch.lines();
        }
        text
    }

    /// The allocations at which PyTorch gave up.
    pub(super) fn refusals(&self) -> String {
        let mut text = String::new();
        for device in &self.uses {
            if let Some(refused) = device.torch.as_ref().and_then(|torch| torch.refused.as_ref()) {
                let whose = device.rank.map_or_else(String::new, |rank| format!("rank {rank} "));
                let place = place(&refused.file, refused.line, &refused.function, refused.backward);
                text += &format!(
                    "On {}{} {whose}ran out of memory when it asked for {}: {place}\n\n",
                    self.gpu,
                    self.probed(),
                    gib(refused.bytes)
                );
            }
        }
        text
    }
}

impl Use {
    fn figures(&self) -> String {
        let torch = self.torch.as_ref();
        let purposes = torch.and_then(|torch| torch.by_purpose);
        let figures = [
            torch.map(|torch| torch.allocated_peak),
            torch.map(|torch| torch.reserved_peak),
            Some(self.taken_peak),
            purposes.map(|held| held.parameters),
            purposes.map(|held| held.gradients),
            purposes.map(|held| held.optimizer_state),
            purposes.map(|held| held.other),
        ];
        figures.map(|bytes| format!(" {} |", bytes.map_or_else(|| "-".to_owned(), gib))).concat()
    }
}

impl Allocator {
    fn lines(&self) -> String {
        let mut text = "| bytes | allocations | largest | |\n|---|---|---|---|\n".to_owned();
        for line in self.at_peak.iter().take(LINES) {
            let Line { bytes, count, largest, .. } = line;
            let place = place(&line.file, line.line, &line.function, line.backward);
            text += &format!("| {} | {count} | {} | {place} |\n", gib(*bytes), gib(*largest));
        }
        if !self.history_is_whole {
            text += "\nThe program made too many allocations to keep them all: the lines are those of a later peak.\n";
        }
        text.push('\n');
        text
    }
}

fn number(number: Option<u32>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

fn place(file: &str, line: u32, function: &str, is_backward: bool) -> String {
    if file.is_empty() {
        return "a backward pass, or another thread without Python".to_owned();
    }
    let of = if is_backward { "backward of " } else { "" };
    format!("{of}`{file}:{line}` in `{function}`").replace('|', "\\|")
}
