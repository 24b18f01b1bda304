//! Text of programs on its way to a terminal or a report. Sequences that would move the cursor, clear the screen or make
//! a terminal answer are shown as text (`^[[2J`), as with `cat -v`. Colors are harmless: reports drop them, and live
//! output keeps them. What is printed may be the log of a CI server, so commands of theirs are changed until they are none.

/// Longer than any color sequence, and than most others that begin like one.
const LONGEST: usize = 64;

/// How commands continue after `##`: those of Azure Pipelines, which also obeys them within a line, and of TeamCity. Those of
/// GitHub have their own way, see `report/github`.
const COMMANDS: [&[u8]; 3] = [b"[", b"vso[", b"teamcity["];

/// What happens to colors, and to a carriage return within a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// Both would spoil a report: colors are dropped, the return is shown.
    Report,
    /// Colors stay, the return is shown: our own lines on a terminal.
    Line,
    /// Both stay: for a program that is watched as it runs.
    Watch,
}

/// A stream of text that arrives in pieces.
#[derive(Debug)]
pub struct Printable {
    purpose: Purpose,
    /// Bytes that may be the beginning of a sequence or a character.
    held: Vec<u8>,
}

/// `text` for a report: without colors, with everything else that a terminal would act on shown as text. Lines and tabs
/// stay.
pub fn visible(text: &str) -> String {
    whole(Purpose::Report, text)
}

/// `text`, which may have colors of ours, for a terminal.
pub fn on_terminal(text: &str) -> String {
    whole(Purpose::Line, text)
}

/// A line that a program wrote, as a reader would see it: for an overwritten line, only the last version.
pub fn line(text: &str) -> String {
    let text = text.trim_end_matches(['\r', '\n']);
    visible(text.rsplit('\r').next().unwrap_or(text))
}

/// `text` on one line.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The same for all lines of `text`.
pub fn lines(text: &str) -> String {
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

fn whole(purpose: Purpose, text: &str) -> String {
    // Most text contains none of this.
    let plain = !text.chars().any(|character| is_special(character) && !matches!(character, '\n' | '\t'));
    if plain && (purpose == Purpose::Report || !text.contains("##")) {
        return text.to_owned();
    }
    let mut printable = Printable { purpose, held: Vec::new() };
    let mut out = printable.push(text.as_bytes());
    out.extend(printable.end());
    String::from_utf8_lossy(&out).into_owned()
}

/// Whether a terminal might act on it, or show a line in a different order (bidirectional text controls).
fn is_special(character: char) -> bool {
    character.is_control() || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

impl Printable {
    /// For the output of a program that a user watches: colors and overwritten lines stay.
    pub fn watched() -> Printable {
        Printable { purpose: Purpose::Watch, held: Vec::new() }
    }

    /// Returns what may be shown now. Bytes that are not UTF-8 pass.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let held = std::mem::take(&mut self.held);
        let whole = [held.as_slice(), bytes].concat();
        let mut out = Vec::with_capacity(whole.len() + 16);
        let mut rest = whole.as_slice();
        while !rest.is_empty() {
            match self.next(rest, &mut out) {
                0 => {
                    self.held = rest.to_vec();
                    break;
                }
                taken => rest = &rest[taken..],
            }
        }
        out
    }

    /// Returns what was held back, at the end of the stream.
    pub fn end(&mut self) -> Vec<u8> {
        let held = std::mem::take(&mut self.held);
        let mut out = Vec::new();
        let mut rest = held.as_slice();
        while let Some((first, behind)) = rest.split_first() {
            // It did not become a sequence or a character.
            match first {
                0x1b | b'\r' => self.show(char::from(*first), &mut out),
                _ => out.push(*first),
            }
            rest = behind;
        }
        out
    }

    /// Puts the beginning of `bytes` into `out`; returns the number of bytes taken, 0 if more must come first.
    fn next(&self, bytes: &[u8], out: &mut Vec<u8>) -> usize {
        match bytes[0] {
            0x1b => match color(bytes) {
                Color::Open if bytes.len() < LONGEST => 0,
                Color::Is(length) => {
                    match &bytes[..length] {
                        _ if self.purpose == Purpose::Report => {}
                        // The same for a terminal, and not the end of a section for GitLab.
                        b"\x1b[0K" => out.extend_from_slice(b"\x1b[K"),
                        color => out.extend_from_slice(color),
                    }
                    length
                }
                Color::Open | Color::Not => {
                    self.show('\u{1b}', out);
                    1
                }
            },
            // Directly before a newline, it is part of the line end.
            b'\r' => match bytes.get(1) {
                None => 0,
                Some(b'\n') => {
                    out.push(b'\n');
                    2
                }
                Some(_) => {
                    self.show('\r', out);
                    1
                }
            },
            b'#' if self.purpose != Purpose::Report => match command(bytes) {
                Command::Open => 0,
                Command::Is => {
                    out.extend_from_slice(b"# #");
                    2
                }
                Command::Not => {
                    out.push(b'#');
                    1
                }
            },
            first if first.is_ascii() => {
                self.show(char::from(first), out);
                1
            }
            _ => {
                let piece = &bytes[..bytes.len().min(4)];
                let valid = match std::str::from_utf8(piece) {
                    Ok(text) => text,
                    Err(error) if error.valid_up_to() > 0 => {
                        std::str::from_utf8(&piece[..error.valid_up_to()]).unwrap_or_default()
                    }
                    Err(error) if error.error_len().is_none() && bytes.len() < 4 => return 0,
                    Err(_) => "",
                };
                match valid.chars().next() {
                    Some(character) => {
                        self.show(character, out);
                        character.len_utf8()
                    }
                    None => {
                        out.push(bytes[0]);
                        1
                    }
                }
            }
        }
    }

    fn show(&self, character: char, out: &mut Vec<u8>) {
        let mut buffer = [0; 4];
        let as_it_is = match character {
            '\n' | '\t' => true,
            '\r' => self.purpose == Purpose::Watch,
            other => !is_special(other),
        };
        if as_it_is {
            out.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
        } else if character.is_ascii() {
            out.extend_from_slice(&[b'^', character as u8 ^ 0x40]);
        } else {
            out.extend_from_slice(format!("<U+{:04X}>", u32::from(character)).as_bytes());
        }
    }
}

/// Whether a command of a CI server begins here.
enum Command {
    Is,
    Not,
    /// It is not complete yet.
    Open,
}

fn command(bytes: &[u8]) -> Command {
    let Some(second) = bytes.get(1) else { return Command::Open };
    if *second != b'#' {
        return Command::Not;
    }
    let rest = &bytes[2..];
    let begins = |command: &&[u8]| {
        let length = command.len().min(rest.len());
        command[..length].eq_ignore_ascii_case(&rest[..length])
    };
    match COMMANDS.iter().find(|command| begins(command)) {
        Some(command) if rest.len() >= command.len() => Command::Is,
        Some(_) => Command::Open,
        None => Command::Not,
    }
}

/// Whether an escape is a color or a sequence that goes with colors.
enum Color {
    /// An escape of this many bytes.
    Is(usize),
    Not,
    /// It is not complete yet.
    Open,
}

/// `ESC [ numbers m`, and `ESC [ K`, which compilers and progress bars write after a colored line.
fn color(bytes: &[u8]) -> Color {
    match bytes.get(1) {
        None => return Color::Open,
        Some(b'[') => {}
        Some(_) => return Color::Not,
    }
    let numbers = bytes[2..].iter().take_while(|byte| matches!(byte, b'0'..=b'9' | b';' | b':')).count();
    match bytes.get(2 + numbers) {
        None => Color::Open,
        Some(b'm' | b'K') => Color::Is(numbers + 3),
        Some(_) => Color::Not,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_terminal_would_act_on_is_shown() {
        for (text, expected) in [
            ("plain ä \u{1f600}\ttab\nline", "plain ä \u{1f600}\ttab\nline"),
            ("\u{1b}[1;31mred\u{1b}[0m\u{1b}[K", "red"),
            ("\u{1b}[2Jgone\u{1b}[H", "^[[2Jgone^[[H"),
            ("\u{1b}[6n", "^[[6n"),
            ("\u{1b}]0;title\u{7}\u{1b}]52;c;eA==\u{1b}\\", "^[]0;title^G^[]52;c;eA==^[\\"),
            ("\u{1b}c\u{1b}(0", "^[c^[(0"),
            ("a\rb\r\nc\r", "a^Mb\nc^M"),
            ("\u{8}\u{0}\u{7f}\u{9b}31m\u{85}", "^H^@^?<U+009B>31m<U+0085>"),
            ("evil\u{202e}gpj", "evil<U+202E>gpj"),
            ("cut \u{1b}[3", "cut ^[[3"),
            ("cut \u{1b}", "cut ^["),
            ("\u{1b}[?25lhidden", "^[[?25lhidden"),
            ("\u{1b}[31\nm", "^[[31\nm"),
        ] {
            assert_eq!(visible(text), expected, "{text:?}");
        }
        assert_eq!(on_terminal("\u{1b}[31mred\u{1b}[0m\u{1b}[2J\r"), "\u{1b}[31mred\u{1b}[0m^[[2J^M");
    }

    #[test]
    fn commands_of_ci_servers_are_none() {
        for (text, expected) in [
            ("##vso[task.setvariable variable=PATH]/tmp\n", "# #vso[task.setvariable variable=PATH]/tmp\n"),
            ("said ##VSO[task.complete result=Succeeded;]", "said # #VSO[task.complete result=Succeeded;]"),
            ("###[error]x\n##[group]y", "## #[error]x\n# #[group]y"),
            ("##teamcity[buildStatus status='SUCCESS']", "# #teamcity[buildStatus status='SUCCESS']"),
            ("## title\n##vs\n# #", "## title\n##vs\n# #"),
            ("\u{1b}[0Ksection_start:1:x\r\u{1b}[0K", "\u{1b}[Ksection_start:1:x^M\u{1b}[K"),
        ] {
            assert_eq!(on_terminal(text), expected);
        }
        let mut watched = Printable::watched();
        let pieces: [&[u8]; 4] = [b"a #", b"#vs", b"o[x]\r\x1b[0", b"K#"];
        let mut out: Vec<u8> = pieces.iter().flat_map(|piece| watched.push(piece)).collect();
        out.extend(watched.end());
        assert_eq!(String::from_utf8(out).unwrap(), "a # #vso[x]\r\u{1b}[K#");
        assert_eq!(visible("##vso[x]"), "##vso[x]", "a file is no log");
    }

    #[test]
    fn a_line_that_was_written_over_is_what_came_last() {
        assert_eq!(lines("\u{1b}[31mred\u{1b}[0m\r\n 10%\r 50%\r100%\nend\u{1b}[2J"), "red\n100%\nend^[[2J");
        assert_eq!(line("all\r"), "all");
    }

    #[test]
    fn a_terminal_gets_colors_and_progress_and_nothing_worse() {
        let text = "\u{1b}[32m10%\u{1b}[K\r20%\u{1b}[6n\r\n".as_bytes();
        let mut printable = Printable::watched();
        assert_eq!(printable.push(text), "\u{1b}[32m10%\u{1b}[K\r20%^[[6n\n".as_bytes());
        assert_eq!(printable.push(b"\xff\x9b31m\xc2"), b"\xff\x9b31m");
        assert_eq!(printable.push(b"\x9b"), b"<U+009B>");
        assert_eq!(printable.push(b"50%\r"), b"50%");
        assert_eq!(printable.end(), b"\r");
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(text in "(\\PC|[\u{1b}\\[\r\n0-9;mKJ\u{9b}ä#vso])*", at: prop::sample::Index) {
            let bytes = text.as_bytes();
            let at = if bytes.is_empty() { 0 } else { at.index(bytes.len()) };
            let all = |pieces: &[&[u8]]| {
                let mut printable = Printable::watched();
                let mut out: Vec<u8> = pieces.iter().flat_map(|piece| printable.push(piece)).collect();
                out.extend(printable.end());
                out
            };
            prop_assert_eq!(all(&[bytes]), all(&[&bytes[..at], &bytes[at..]]));
        }

        #[test]
        fn a_report_has_no_character_that_acts(text: String) {
            let shown = visible(&text);
            prop_assert!(shown.chars().all(|character| !is_special(character) || matches!(character, '\n' | '\t')));
            prop_assert_eq!(visible(&shown), shown);
        }
    }
}
