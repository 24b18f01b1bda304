//! Text that may stand in XML 1.0: the one way by which anything gets into a JUnit file.

use quick_junit::XmlString;

/// Text of which every character is allowed in XML 1.0, without terminal escapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XmlText(String);

impl XmlText {
    /// `text` without terminal escapes; what XML forbids becomes U+FFFD. A carriage return ends a line: readers of XML turn
    /// it into one or drop it, and a progress bar would become one long word. Of tabs quick-junit leaves nothing: spaces.
    pub fn new(text: &str) -> XmlText {
        XmlText(
            strip_escapes(text)
                .replace("\r\n", "\n")
                .replace(['\r', '\u{85}'], "\n")
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

/// Char of XML 1.0, section 2.2, without the control characters that it discourages: one of them begins an escape.
fn allowed(character: char) -> bool {
    matches!(character, '\u{9}' | '\u{a}' | '\u{d}' | '\u{20}'..='\u{7e}' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..='\u{10ffff}')
}

/// `text` without CSI, OSC and two-character escapes.
fn strip_escapes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if character != '\u{1b}' {
            out.push(character);
            continue;
        }
        match characters.peek() {
            Some('[') => {
                characters.next();
                // A cut escape must not swallow the line after it.
                while let Some(next) = characters.next_if(|next| ('\u{20}'..='\u{3f}').contains(next)) {
                    let _ = next;
                }
                characters.next_if(|last| ('\u{40}'..='\u{7e}').contains(last));
            }
            Some(']') => {
                characters.next();
                while characters.next_if(|next| !matches!(next, '\u{7}' | '\u{1b}' | '\n')).is_some() {}
                if characters.next_if_eq(&'\u{7}').is_none() && characters.next_if_eq(&'\u{1b}').is_some() {
                    characters.next_if_eq(&'\\');
                }
            }
            Some('\u{40}'..='\u{5f}') => {
                characters.next();
            }
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escapes_go_and_forbidden_characters_show() {
        for (text, expected) in [
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("a\u{1b}]0;title\u{7}b", "ab"),
            ("a\u{1b}]8;;x\u{1b}\\b", "ab"),
            ("nul\0 bell\u{7}", "nul\u{fffd} bell\u{fffd}"),
            ("\u{fffe}\u{ffff}", "\u{fffd}\u{fffd}"),
            ("cut\u{1b}[3\nnext", "cut\nnext"),
            ("a]]>b\tc\r\n", "a]]>b    c\n"),
            ("50%\r100%\r", "50%\n100%\n"),
            ("next\u{85}line \u{9b}31m", "next\nline \u{fffd}31m"),
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
