//! Text that is valid in XML 1.0: all text of a JUnit file goes through it.

use quick_junit::XmlString;

use crate::host::printable;

/// Text in which every character is allowed in XML 1.0; terminal control sequences are made visible, colors are left
/// out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XmlText(String);

impl XmlText {
    /// `text` as [`printable::visible`] shows it; anything else that XML forbids becomes U+FFFD. A carriage return ends a line:
    /// readers of XML turn it into a newline or drop it, and a progress bar would become one long word. Tabs become spaces,
    /// because quick-junit drops them.
    pub fn new(text: &str) -> XmlText {
        let lines = text.replace("\r\n", "\n").replace(['\r', '\u{85}'], "\n");
        XmlText(
            printable::visible(&lines)
                .replace('\t', "    ")
                .chars()
                .map(|character| if allowed(character) { character } else { '\u{fffd}' })
                .collect(),
        )
    }

    /// Bytes of any kind, decoded as far as they are UTF-8.
    pub fn from_bytes(bytes: &[u8]) -> XmlText {
        XmlText::new(&String::from_utf8_lossy(bytes))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<XmlText> for XmlString {
    fn from(text: XmlText) -> XmlString {
        XmlString::new(text.0)
    }
}

/// `Char` of XML 1.0, section 2.2, without the discouraged control characters, because one of them begins an escape.
fn allowed(character: char) -> bool {
    matches!(character, '\u{9}' | '\u{a}' | '\u{d}' | '\u{20}'..='\u{7e}' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..='\u{10ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn colors_go_and_forbidden_characters_show() {
        for (text, expected) in [
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("a\u{1b}]0;title\u{7}b\u{1b}[2J", "a^[]0;title^Gb^[[2J"),
            ("nul\0 bell\u{7}", "nul^@ bell^G"),
            ("\u{fffe}\u{ffff}", "\u{fffd}\u{fffd}"),
            ("cut\u{1b}[3\nnext", "cut^[[3\nnext"),
            ("a]]>b\tc\r\n", "a]]>b    c\n"),
            ("50%\r100%\r", "50%\n100%\n"),
            ("next\u{85}line \u{9b}31m", "next\nline <U+009B>31m"),
            ("\u{1f600}", "\u{1f600}"),
        ] {
            assert_eq!(XmlText::new(text).as_str(), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_become_allowed_characters(bytes: Vec<u8>) {
            prop_assert!(XmlText::from_bytes(&bytes).as_str().chars().all(allowed));
        }

        #[test]
        fn plain_text_stays(text in "[ -~\n]*") {
            let wanted = text.clone();
            let made = XmlText::new(&text);
            prop_assert_eq!(made.as_str(), wanted.as_str());
        }
    }
}
