//! Drawings as inline SVG. Colors are classes of the page's style sheet, so that they follow light and dark.

use std::fmt::{Display, Write as _};

use crate::host::printable;

/// A drawing under construction. Lengths are in CSS pixels.
#[derive(Debug)]
pub(crate) struct Svg {
    width: f64,
    height: f64,
    body: String,
}

/// How a text is anchored at its point.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Anchor {
    /// It begins there.
    Start,
    /// It is centered there.
    Middle,
    /// It ends there.
    End,
}

impl Svg {
    pub(crate) fn new(width: f64, height: f64) -> Svg {
        Svg { width, height, body: String::new() }
    }

    /// A rectangle; `tip` is shown when the user points at it.
    pub(crate) fn rect(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64), tip: &str) {
        let (x, y, width, height) = (Short(x), Short(y), Short(width), Short(height));
        let _ = write!(self.body, r#"<rect class="{class}" x="{x}" y="{y}" width="{width}" height="{height}""#);
        self.body.push_str(&match tip {
            "" => "/>".to_owned(),
            tip => format!("><title>{}</title></rect>", escaped(tip)),
        });
    }

    /// One line of text.
    pub(crate) fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (x, y) = (Short(x), Short(y));
        let _ = write!(
            self.body,
            r#"<text class="{class}" x="{x}" y="{y}" text-anchor="{anchor}">{}</text>"#,
            escaped(text)
        );
    }

    /// Text that goes up to the right from its point.
    pub(crate) fn slanted(&mut self, class: &str, (x, y): (f64, f64), text: &str) {
        let (x, y) = (Short(x), Short(y));
        let _ = write!(
            self.body,
            r#"<text class="{class}" transform="translate({x} {y}) rotate(-45)">{}</text>"#,
            escaped(text)
        );
    }

    /// A straight line.
    pub(crate) fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        let (x1, y1, x2, y2) = (Short(x1), Short(y1), Short(x2), Short(y2));
        let _ = write!(self.body, r#"<line class="{class}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>"#);
    }

    /// A closed or open line through points.
    pub(crate) fn path(&mut self, class: &str, points: &[(f64, f64)]) {
        let _ = write!(self.body, r#"<path class="{class}" d=""#);
        for (index, (x, y)) in points.iter().enumerate() {
            let _ = write!(self.body, "{}{} {}", if index == 0 { 'M' } else { 'L' }, Short(*x), Short(*y));
        }
        self.body.push_str("\"/>");
    }

    /// The element. `id` is unique in the page; `title` names the chart, `description` describes it in words.
    pub(crate) fn finish(self, id: &str, title: &str, description: &str) -> String {
        let Svg { width, height, body } = self;
        let (width, height) = (width.ceil(), height.ceil());
        format!(
            r#"<svg class="chart" role="img" aria-labelledby="{id}-t {id}-d" viewBox="0 0 {width} {height}" width="{width}" height="{height}" style="--w:{width}px"><title id="{id}-t">{}</title><desc id="{id}-d">{}</desc>{body}</svg>"#,
            escaped(title),
            escaped(description),
        )
    }
}

/// A number with at most two decimals.
struct Short(f64);

impl Display for Short {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", (self.0 * 100.0).round() / 100.0)
    }
}

/// Text for an element or an attribute, as [`printable::visible`] shows it.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in printable::visible(text).chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

/// At most `longest` characters: the middle is removed, because names of nodes differ at their ends.
pub(crate) fn shortened(name: &str, longest: usize) -> String {
    let characters: Vec<char> = name.chars().collect();
    if characters.len() <= longest {
        return name.to_owned();
    }
    let head = (longest - 1) / 2;
    let tail = longest - 1 - head;
    let (head, tail) = (&characters[..head], &characters[characters.len() - tail..]);
    format!("{}…{}", head.iter().collect::<String>(), tail.iter().collect::<String>())
}

/// Round numbers from 0 up to `most`, at most `count` steps: 1, 2 or 5 times a power of ten apart.
pub(crate) fn ticks(most: f64, count: usize) -> Vec<f64> {
    if !(most.is_finite() && most > 0.0) {
        return vec![0.0];
    }
    let rough = most / count.max(1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| *step >= rough * 0.999);
    let step = step.unwrap_or(10.0 * power);
    (0..=count).map(|index| index as f64 * step).take_while(|tick| *tick <= most * 1.001).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_out() {
        let mut svg = Svg::new(1.0, 1.0);
        svg.text("t", (0.0, 0.0), Anchor::Start, "<script>&\"'");
        let text = svg.finish("i", "</title>", "d");
        assert!(text.contains("&lt;script&gt;&amp;&quot;&#39;") && text.contains("&lt;/title&gt;"), "{text}");
    }

    #[test]
    fn long_names_keep_both_ends() {
        assert_eq!(shortened("node-1", 8), "node-1");
        assert_eq!(shortened("compute-rack-17-node-3", 9), "comp…de-3");
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(10.0, 5), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(ticks(730.0, 4), [0.0, 200.0, 400.0, 600.0]);
        assert_eq!(ticks(0.0, 4), [0.0]);
    }
}
