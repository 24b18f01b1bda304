//! `println!` and `eprintln!` of this crate. Those of std panic when the reader has left (`ftest check suites | head -1`);
//! what a reader who left does not want to know is no error. What goes to stderr is for people, and may name files or quote
//! what a program wrote: nothing of it acts on the terminal.

macro_rules! println {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = std::writeln!(std::io::stdout(), $($text)*);
    }};
}

macro_rules! eprintln {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let text = std::format!($($text)*);
        let _ = std::writeln!(std::io::stderr(), "{}", $crate::printable::on_terminal(&text));
    }};
}
