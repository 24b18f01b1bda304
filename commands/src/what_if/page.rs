//! The comparison as a page: a table and a bar for each step, in one file without scripts.

use runner::report::chart::escaped;

use super::figures::{Comparison, Figures};
use super::table::{ROWS, described, difference, notes, title, us};

pub(super) fn html(comparison: &Comparison) -> String {
    let Comparison { before, after, .. } = comparison;
    let all: Vec<&Figures> = std::iter::once(before).chain(after).collect();
    let longest = all.iter().map(|figures| figures.step_us).fold(f64::MIN_POSITIVE, f64::max);
    let head: String = all.iter().map(|figures| format!("<th>{}</th>", escaped(&figures.name))).collect();
    let mut rows = String::new();
    for (name, figure) in ROWS {
        let cells = all.iter().map(|figures| match (figure(before), figure(figures)) {
            (Some(was), Some(is)) => format!("<td>{} <small>{}</small></td>", us(is), difference(was, is)),
            _ => "<td>-</td>".to_owned(),
        });
        rows += &format!("<tr><th>{name}</th>{}</tr>\n", cells.collect::<String>());
    }
    let bars: String = all.iter().map(|figures| bar(figures, longest)).collect();
    let paths: String = all.iter().map(|figures| path(figures)).collect();
    let notes: String = notes(comparison).iter().map(|note| format!("<li>{}</li>", escaped(note))).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>what if</title>\n\
         <style>body{{font:14px sans-serif;margin:2em}}td,th{{padding:.2em 1em;text-align:right}}\
         .bar{{display:flex;height:1.2em;margin:.2em 0}}.bar i{{background:#48a}}.bar b{{background:#d73}}\
         .bar u{{background:#ccc}}</style>\n\
         <h1>What if: {}</h1><p>Modeled, not measured.</p><ul>{notes}</ul>\n\
         <table><tr><th></th>{head}</tr>\n{rows}</table>\n\
         <h2>Steps</h2><p>Kernels and copies, exposed collectives, the rest.</p>\n{bars}{paths}</html>\n",
        escaped(&title(comparison))
    )
}

/// The step, as long as its share of the longest one.
fn bar(figures: &Figures, longest: f64) -> String {
    let width = |us: f64| us / longest * 60.0;
    let (computing, exposed) = (figures.computing_us.unwrap_or(0.0), figures.exposed_communication_us.unwrap_or(0.0));
    let rest = (figures.step_us - computing - exposed).max(0.0);
    format!(
        "<div>{}</div><div class=\"bar\"><i style=\"width:{:.2}em\"></i><b style=\"width:{:.2}em\"></b>\
         <u style=\"width:{:.2}em\"></u></div>\n",
        escaped(&figures.name),
        width(computing),
        width(exposed),
        width(rest)
    )
}

fn path(figures: &Figures) -> String {
    let row = |segment: &protocol::report::PathSegment| {
        let (time, share) = (us(segment.time_ns as f64 / 1e3), segment.share * 100.0);
        format!("<tr><td>{time}</td><td>{share:.1} %</td><td>{}</td></tr>\n", escaped(&described(segment)))
    };
    let rows: String = figures.critical_path.iter().map(row).collect();
    match rows.is_empty() {
        true => String::new(),
        false => format!("<h2>Critical path of step 2, {}</h2><table>{rows}</table>\n", escaped(&figures.name)),
    }
}
