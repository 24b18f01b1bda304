//! Where this crate prints. A reader who left (`ftest check suites | head -1`) did not want the rest; anything else that
//! keeps stdout from being written is an error, remembered here until the exit code is chosen. What goes to stderr is for
//! people, and may name files or quote what a program wrote: nothing of it acts on the terminal.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Stdout, Write};
use std::sync::OnceLock;

use clap::Parser;

use crate::exit_code::ExitCode;

/// Unlike that of std it does not panic.
macro_rules! println {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = std::writeln!($crate::say::stdout(), $($text)*);
    }};
}

/// Unlike that of std it does not panic.
macro_rules! eprintln {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let text = std::format!($($text)*);
        let _ = std::writeln!(std::io::stderr(), "{}", $crate::printable::on_terminal(&text));
    }};
}

static LOST: OnceLock<String> = OnceLock::new();

/// A stream to stdout whose first error is remembered.
#[derive(Debug)]
pub struct Out<W>(W);

/// Standard output.
pub fn stdout() -> Out<Stdout> {
    Out(io::stdout())
}

/// Standard output, with colors where they are wanted.
pub fn styled() -> Out<anstream::AutoStream<Stdout>> {
    Out(anstream::stdout())
}

/// Why not all of stdout could be written, if so. What std still holds back is written first.
pub fn lost() -> Option<&'static str> {
    let _ = stdout().flush();
    LOST.get().map(String::as_str)
}

/// The command line `arguments`. Help, a version and mistakes are printed, and the process ends.
pub fn parse<T: Parser>(arguments: impl IntoIterator<Item = OsString>) -> T {
    T::try_parse_from(arguments).unwrap_or_else(|error| {
        let to_stdout = !error.use_stderr();
        let printed = error.print();
        if to_stdout {
            let _ = remember(printed);
        }
        std::process::exit(code(error.exit_code()))
    })
}

/// `code`, or what an incomplete stdout makes of it, which stderr says.
pub fn code(code: i32) -> i32 {
    match lost() {
        Some(error) => {
            eprintln!("ftest: cannot write to stdout: {error}");
            code.max(ExitCode::CouldNotRun as i32)
        }
        None => code,
    }
}

fn remember<T>(result: io::Result<T>) -> io::Result<T> {
    if let Err(error) = &result
        && !matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::Interrupted)
    {
        LOST.get_or_init(|| error.to_string());
    }
    result
}

impl<W: Write> Write for Out<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        remember(self.0.write(bytes))
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        remember(self.0.write_all(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        remember(self.0.flush())
    }
}
