//! What each GPU did on the modeled clock, on tracks of its own: its steps, and the pieces of the second one by stream.

use protocol::report::{PathKind, SamplePiece};
use serde_json::{Value, json};

use super::{MOST_EVENTS, Trace};
use crate::report::chart::gpu_timeline::Sample;

/// Tracks of a GPU: its steps, and a stream for each piece of a sample at most.
const TRACKS: u64 = 1 << 13;

impl Trace {
    /// Adds the GPUs of an attempt as process `process`, named `name`. Modeled times count from `begin`.
    pub(super) fn gpus(&mut self, samples: &[Sample], process: u64, name: &str, begin: f64) {
        let events = |sample: &Sample| sample.step.as_ref().map_or(0, |step| step.pieces.len()) + sample.windows.len();
        if self.events.len() + samples.iter().map(events).sum::<usize>() > MOST_EVENTS {
            self.left_out += 1;
            return;
        }
        self.name(process, None, "process", &format!("{name}, modeled clock"), process);
        for (number, sample) in samples.iter().enumerate() {
            let steps = number as u64 * TRACKS;
            self.name(process, Some(steps), "thread", &format!("{}, steps", sample.name), steps);
            let time = |ns: u64| begin + ns as f64 / 1e3;
            for (step, window) in (1..).zip(&sample.windows) {
                let times = (time(window.begin_ns), time(window.end_ns));
                self.slice((process, steps), times, &format!("step {step}"), "step", json!({}));
            }
            let Some(step) = &sample.step else { continue };
            let mut named: Vec<u64> = Vec::new();
            for piece in &step.pieces {
                let track = steps + 1 + piece.stream;
                if !named.contains(&track) {
                    named.push(track);
                    self.name(
                        process,
                        Some(track),
                        "thread",
                        &format!("{}, stream {}", sample.name, piece.stream),
                        track,
                    );
                }
                let times = (time(piece.begin_ns), time(piece.end_ns));
                self.slice((process, track), times, &piece.name, kind(piece.kind), facts(piece));
            }
        }
    }
}

fn kind(kind: PathKind) -> &'static str {
    match kind {
        PathKind::Compute => "kernel",
        other => other.name(),
    }
}

fn facts(piece: &SamplePiece) -> Value {
    let line = piece.file.iter().zip(piece.line).map(|(file, line)| format!("{file}:{line}"));
    json!({ "bytes": piece.bytes, "line": line.collect::<Vec<_>>().first() })
}
