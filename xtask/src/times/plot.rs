//! Modeled against measured times of all healthy tables, as an SVG.

use std::fmt::Write;

use timing::machine::Generation;
use timing::physics::Physics;

use super::published::Case;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 560.0;
const MARGIN: f64 = 60.0;
/// Powers of ten of the axes, us.
const FIRST: f64 = 0.7;
const LAST: f64 = 5.6;

/// One dot per row: measured on the x axis, modeled on the y axis, both logarithmic.
pub(super) fn svg(cases: &[Case]) -> String {
    let physics = Physics::default();
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n"
    );
    band(&mut text);
    axes(&mut text);
    for case in cases.iter().filter(|case| case.status == "healthy") {
        let color = color(case.machine.generation());
        for row in &case.rows {
            let Some((measured, modeled)) = row.measured_us.zip(case.predict(&physics, row.bytes)) else { continue };
            let (x, y) = (x(measured), y(modeled));
            let _ =
                writeln!(text, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.4\" fill=\"{color}\" fill-opacity=\"0.6\"/>");
        }
    }
    legend(&mut text);
    text.push_str("</svg>\n");
    text
}

fn place(us: f64) -> f64 {
    (us.log10() - FIRST) / (LAST - FIRST)
}

fn x(us: f64) -> f64 {
    MARGIN + place(us) * (WIDTH - MARGIN - 20.0)
}

fn y(us: f64) -> f64 {
    HEIGHT - MARGIN - place(us) * (HEIGHT - MARGIN - 20.0)
}

/// Within 20 % of the measurement.
fn band(text: &mut String) {
    let (low, high) = (10f64.powf(FIRST), 10f64.powf(LAST));
    let corners =
        [(low, 1.2 * low), (high / 1.2, high), (high, high), (high, high / 1.25), (1.25 * low, low), (low, low)];
    let points: Vec<String> = corners.iter().map(|(at_x, at_y)| format!("{:.1},{:.1}", x(*at_x), y(*at_y))).collect();
    let _ = writeln!(text, "<polygon points=\"{}\" fill=\"#e8eef7\"/>", points.join(" "));
    let (from, to) = ((x(low), y(low)), (x(high), y(high)));
    let _ = writeln!(
        text,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"#8aa\"/>",
        from.0, from.1, to.0, to.1
    );
}

fn axes(text: &mut String) {
    for (power, label) in [(1, "10 us"), (2, "100 us"), (3, "1 ms"), (4, "10 ms"), (5, "100 ms")] {
        let us = 10f64.powi(power);
        let (at_x, at_y) = (x(us), y(us));
        let (left, bottom) = (MARGIN, HEIGHT - MARGIN);
        let _ = writeln!(text, "<line x1=\"{at_x:.1}\" y1=\"20\" x2=\"{at_x:.1}\" y2=\"{bottom}\" stroke=\"#ddd\"/>");
        let _ = writeln!(
            text,
            "<line x1=\"{left}\" y1=\"{at_y:.1}\" x2=\"{}\" y2=\"{at_y:.1}\" stroke=\"#ddd\"/>",
            WIDTH - 20.0
        );
        let _ = writeln!(text, "<text x=\"{at_x:.1}\" y=\"{}\" text-anchor=\"middle\">{label}</text>", bottom + 18.0);
        let _ = writeln!(text, "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>", left - 6.0, at_y + 4.0);
    }
    let _ =
        writeln!(text, "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">measured</text>", WIDTH / 2.0, HEIGHT - 14.0);
    let _ = writeln!(text, "<text x=\"{MARGIN}\" y=\"14\">modeled (band: within 20 %)</text>");
}

fn legend(text: &mut String) {
    let names = [Generation::Volta, Generation::Ampere, Generation::Hopper, Generation::Blackwell];
    let labels = ["V100 and before", "Ampere, Ada", "Hopper", "Blackwell"];
    for (index, (generation, label)) in names.into_iter().zip(labels).enumerate() {
        let at_y = 40.0 + 20.0 * index as f64;
        let _ = writeln!(text, "<circle cx=\"80\" cy=\"{at_y}\" r=\"5\" fill=\"{}\"/>", color(generation));
        let _ = writeln!(text, "<text x=\"92\" y=\"{}\">{label}</text>", at_y + 4.0);
    }
}

fn color(generation: Generation) -> &'static str {
    match generation {
        Generation::Volta => "#7a5195",
        Generation::Ampere => "#2f6db3",
        Generation::Hopper => "#2e8b57",
        Generation::Blackwell => "#d9822b",
    }
}
