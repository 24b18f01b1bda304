//! What each GPU did in one step on the modeled clock: a lane for each stream, and a mark below where communication was exposed.

use std::path::Path;

use protocol::device_report::DeviceTime;
use protocol::report::{PathKind, SamplePiece, StepSample, StepWindow};
use serde_json::Value;
use timing::steps::only;

use crate::report::chart::svg::{Anchor, Svg, ticks};
use crate::report::words;

/// Maximum number of GPUs: the first ones.
const MOST_GPUS: usize = 16;
/// Maximum number of streams of a GPU: those that follow share the last lane.
const MOST_LANES: usize = 4;
/// Larger files are not read.
const LARGEST: u64 = 64 << 20;
const WIDTH: f64 = 900.0;
const LEFT: f64 = 90.0;
const LANE: f64 = 16.0;
/// Bars of one kind that are closer than that are drawn as one.
const NARROW: f64 = 1.0;

/// The steps of a GPU.
#[derive(Debug)]
pub struct Sample {
    /// Who did it: `rank 3`.
    pub name: String,
    /// What it did in the second one.
    pub step: Option<StepSample>,
    /// When the first ones were.
    pub windows: Vec<StepWindow>,
}

/// The samples in the file of the device reports of an attempt; none if it cannot be read.
pub fn samples(file: &Path) -> Vec<Sample> {
    let is_small = std::fs::metadata(file).is_ok_and(|metadata| metadata.len() <= LARGEST);
    let text = if is_small { std::fs::read(file).unwrap_or_default() } else { Vec::new() };
    let reports: Vec<Value> = serde_json::from_slice(&text).unwrap_or_default();
    let mut samples = Vec::new();
    for report in &reports {
        let rank = report["measured"]["rank"].as_u64();
        for (ordinal, entry) in report["devices"].as_array().into_iter().flatten().enumerate() {
            let time = entry.get("time").and_then(|time| serde_json::from_value::<DeviceTime>(time.clone()).ok());
            let Some(DeviceTime { sample, step_windows, .. }) = time else { continue };
            if sample.is_some() || !step_windows.is_empty() {
                let name = rank.map_or_else(|| format!("GPU {ordinal}"), |rank| format!("rank {rank}"));
                samples.push(Sample { name, step: sample, windows: step_windows });
            }
        }
    }
    samples
}

/// The timeline of the second step of the first GPUs; `None` if no step is known.
pub fn draw(samples: &[Sample], id: &str) -> Option<String> {
    let known = samples.iter().filter_map(|sample| Some(Drawn { name: &sample.name, step: sample.step.as_ref()? }));
    let samples: Vec<Drawn<'_>> = known.take(MOST_GPUS).collect();
    let length = |sample: &Drawn<'_>| sample.step.end_ns - sample.step.begin_ns;
    let longest = samples.iter().map(length).max().filter(|longest| *longest > 0)? as f64;
    let lanes = |sample: &Drawn<'_>| {
        let streams = sample.step.pieces.iter().map(|piece| piece.stream + 1).max().unwrap_or(1);
        (streams as usize).min(MOST_LANES)
    };
    let bottom = 8.0 + samples.iter().map(|sample| lanes(sample) as f64 * LANE + 12.0).sum::<f64>();
    let scale = (WIDTH - LEFT - 12.0) / longest;
    let mut svg = Svg::new(WIDTH, bottom + 24.0);
    for tick in ticks(longest / 1e3, 6) {
        let x = LEFT + tick * 1e3 * scale;
        svg.line("grid", (x, 4.0), (x, bottom));
        let text = if tick == 0.0 { "0".to_owned() } else { words::time(tick) };
        svg.text("tick", (x.min(WIDTH - 20.0), bottom + 16.0), Anchor::Middle, &text);
    }
    let mut top = 8.0;
    for sample in &samples {
        svg.text("label", (LEFT - 8.0, top + 12.0), Anchor::End, sample.name);
        let x = |ns: u64| {
            LEFT + ns.clamp(sample.step.begin_ns, sample.step.end_ns).saturating_sub(sample.step.begin_ns) as f64
                * scale
        };
        for lane in 0..lanes(sample) {
            let of_lane = sample.step.pieces.iter().filter(|piece| (piece.stream as usize).min(MOST_LANES - 1) == lane);
            for bar in bars(of_lane, NARROW / scale) {
                let place = (x(bar.begin_ns), top + lane as f64 * LANE + 1.0);
                let width = (x(bar.end_ns) - place.0).max(0.5);
                svg.rect(class(bar.kind), place, (width, LANE - 3.0), &bar.tip(sample.step.begin_ns));
            }
        }
        top += lanes(sample) as f64 * LANE;
        for (begin, end) in exposed(&sample.step.pieces) {
            let tip = format!("{}: exposed communication, {}", sample.name, words::time((end - begin) as f64 / 1e3));
            svg.rect("stuck", (x(begin), top), ((x(end) - x(begin)).max(0.5), 4.0), &tip);
        }
        top += 12.0;
    }
    let mut description = format!("{} within {}.", words::counted(samples.len(), "GPU"), words::time(longest / 1e3));
    if samples.iter().any(|sample| !sample.step.is_whole) {
        description.push_str(" Not all that ran is listed.");
    }
    Some(svg.finish(id, "What each GPU did in its second step", &description))
}

/// The second step of a GPU.
struct Drawn<'s> {
    name: &'s str,
    step: &'s StepSample,
}

/// When collectives ran and nothing else did.
fn exposed(pieces: &[SamplePiece]) -> Vec<(u64, u64)> {
    let when = |is_collective: bool| {
        let these = pieces.iter().filter(move |piece| (piece.kind == PathKind::Collective) == is_collective);
        these.map(|piece| (piece.begin_ns, piece.end_ns))
    };
    only(when(true), when(false))
}

/// Pieces that are drawn as one.
struct Bar<'s> {
    kind: PathKind,
    name: &'s str,
    count: usize,
    begin_ns: u64,
    end_ns: u64,
}

impl Bar<'_> {
    fn tip(&self, step_ns: u64) -> String {
        let time = |ns: u64| words::time(ns as f64 / 1e3);
        let more = if self.count > 1 { format!(" and {} more", self.count - 1) } else { String::new() };
        let at = time(self.begin_ns.saturating_sub(step_ns));
        format!("{}{more}: {} at {at}", self.name, time(self.end_ns - self.begin_ns))
    }
}

/// The bars of a lane; pieces of one kind that are closer than `near` ns, one of them shorter than that, are one.
fn bars<'s>(pieces: impl Iterator<Item = &'s SamplePiece>, near: f64) -> Vec<Bar<'s>> {
    let mut bars: Vec<Bar<'s>> = Vec::new();
    for piece in pieces {
        let is_short = |begin: u64, end: u64| ((end - begin) as f64) < near;
        if let Some(last) = bars.last_mut()
            && last.kind == piece.kind
            && (piece.begin_ns.saturating_sub(last.end_ns) as f64) < near
            && (is_short(piece.begin_ns, piece.end_ns) || is_short(last.begin_ns, last.end_ns))
        {
            last.end_ns = last.end_ns.max(piece.end_ns);
            last.count += 1;
            continue;
        }
        let SamplePiece { name, kind, begin_ns, end_ns, .. } = piece;
        bars.push(Bar { kind: *kind, name, count: 1, begin_ns: *begin_ns, end_ns: *end_ns });
    }
    bars
}

fn class(kind: PathKind) -> &'static str {
    match kind {
        PathKind::Collective => "k1",
        PathKind::Copy => "k2",
        PathKind::Compute => "k3",
        PathKind::Wait | PathKind::Host | PathKind::Gap => "k7",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(name: &str, kind: PathKind, stream: u64, begin_ns: u64, end_ns: u64) -> SamplePiece {
        SamplePiece { name: name.to_owned(), kind, stream, begin_ns, end_ns, bytes: None, file: None, line: None }
    }

    fn sample(pieces: Vec<SamplePiece>) -> Sample {
        let step = StepSample { step: 2, begin_ns: 1_000_000, end_ns: 2_000_000, is_whole: true, pieces };
        Sample { name: "rank 1".to_owned(), step: Some(step), windows: Vec::new() }
    }

    #[test]
    fn streams_are_lanes_and_exposed_communication_is_marked() {
        let sample = sample(vec![
            piece("gemm<bf16>", PathKind::Compute, 0, 1_000_000, 1_400_000),
            piece("all_reduce", PathKind::Collective, 1, 1_300_000, 1_600_000),
            piece("Memcpy HtoD", PathKind::Copy, 2, 1_550_000, 1_900_000),
        ]);
        assert_eq!(exposed(&sample.step.as_ref().unwrap().pieces), [(1_400_000, 1_550_000)]);
        let text = draw(&[sample], "t").unwrap();
        for part in [
            "rank 1: exposed communication, 150 us",
            "gemm&lt;bf16&gt;: 400 us at 0",
            "all_reduce: 300 us at 300 us",
            r#"class="k2""#,
            ">rank 1<",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(text.matches(r#"class="stuck""#).count(), 1);
        assert_eq!(draw(&[], "t"), None);
    }

    #[test]
    fn many_short_kernels_are_few_bars() {
        let pieces = (0..4000).map(|index| {
            let begin = 1_000_000 + index * 250;
            piece("add", PathKind::Compute, 0, begin, begin + 200)
        });
        let text = draw(&[sample(pieces.collect())], "t").unwrap();
        assert!(text.matches("<rect").count() < 1000 && text.contains("more: "), "{}", text.len());
    }
}
