//! Renders a text with colors as a terminal shows it, as an SVG.

use std::fmt::Write as _;

/// Columns of the terminal.
const COLUMNS: usize = 132;

/// A line that needs more rows than this is cut.
const ROWS_OF_A_LINE: usize = 3;

/// Size of a character, px.
const CELL: (f64, usize) = (7.25, 17);

/// A piece of a line in one style: the CSS class, and the text.
type Piece = (&'static str, String);

/// Lines wrapped as in a terminal, each in pieces of one style.
fn rows(text: &str) -> Vec<Vec<Piece>> {
    let mut rows = Vec::new();
    for line in text.lines() {
        let (mut row, mut column, mut of_line, mut class) = (Vec::<Piece>::new(), 0, 1, "");
        let mut letters = line.chars();
        while let Some(letter) = letters.next() {
            if letter == '\x1b' {
                let code: String = letters.by_ref().skip(1).take_while(|&letter| letter != 'm').collect();
                class = style(&code);
                continue;
            }
            if column == COLUMNS {
                if of_line == ROWS_OF_A_LINE {
                    row.push(("dim", "…".to_owned()));
                    break;
                }
                rows.push(std::mem::take(&mut row));
                (column, of_line) = (0, of_line + 1);
            }
            match row.last_mut() {
                Some((last, text)) if *last == class => text.push(letter),
                _ => row.push((class, letter.to_string())),
            }
            column += 1;
        }
        rows.push(row);
    }
    rows
}

/// The class of an SGR code that ftest prints.
fn style(code: &str) -> &'static str {
    match code {
        "1" => "bold",
        "2" => "dim",
        "31" => "red",
        "32" => "green",
        "33" => "yellow",
        "35" => "magenta",
        "36" => "cyan",
        _ => "",
    }
}

/// `text` as a terminal shows it, below `what`, the name of the program that printed it.
pub(super) fn svg(what: &str, text: &str) -> String {
    let rows = rows(text);
    let (wide, tall) = CELL;
    let width = (COLUMNS + 2) as f64 * wide;
    let height = (rows.len() + 2) * tall;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">\n\
         <title>{what} in a terminal</title>\n\
         <style>text {{ font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #d4d4d4; white-space: pre }}\n\
         .bold {{ font-weight: bold; fill: #ffffff }} .dim {{ fill: #8b949e }} .red {{ fill: #ff7b72 }} .green {{ fill: #56d364 }}\n\
         .yellow {{ fill: #e3b341 }} .magenta {{ fill: #d2a8ff }} .cyan {{ fill: #79c0ff }}</style>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#161b22\"/>\n"
    );
    for (number, row) in rows.iter().enumerate() {
        let mut column = 0;
        for (class, text) in row {
            let letters = text.chars().count();
            // The length is stated, so columns stay aligned whatever font there is.
            if !text.trim().is_empty() {
                let _ = writeln!(
                    svg,
                    "<text x=\"{:.2}\" y=\"{}\" textLength=\"{:.2}\" class=\"{class}\" xml:space=\"preserve\">{}</text>",
                    (column + 1) as f64 * wide,
                    (number + 2) * tall - 4,
                    letters as f64 * wide,
                    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
                );
            }
            column += letters;
        }
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_start_and_end_where_their_codes_are() {
        let rows = rows("\x1b[32m passed\x1b[0m suite\nnext");
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0], [("green", " passed".to_owned()), ("", " suite".to_owned())]);
    }

    #[test]
    fn long_lines_wrap_and_very_long_ones_are_cut() {
        let wrapped = rows(&"x".repeat(COLUMNS + 1));
        assert_eq!(wrapped.iter().map(|row| row[0].1.len()).collect::<Vec<_>>(), [COLUMNS, 1]);
        let cut = rows(&"x".repeat(COLUMNS * 9));
        assert_eq!(cut.len(), ROWS_OF_A_LINE);
        assert_eq!(cut.last().unwrap().last().unwrap().1, "…");
    }

    #[test]
    fn text_is_escaped() {
        assert!(svg("x.yaml", "a < b & c").contains("a &lt; b &amp; c"));
    }
}
