//! `println!` and `eprintln!` of this crate. Those of std panic when the reader has left (`ftest check suites | head -1`);
//! what a reader who left does not want to know is no error.

macro_rules! println {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = std::writeln!(std::io::stdout(), $($text)*);
    }};
}

macro_rules! eprintln {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = std::writeln!(std::io::stderr(), $($text)*);
    }};
}
