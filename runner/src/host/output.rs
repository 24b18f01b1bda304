//! Where this crate prints. A reader that closed the pipe (`ftest check suites | head -1`) did not want the rest; anything else that
//! keeps stdout from being written is an error, remembered here until the exit code is chosen. What goes to stderr is for
//! people, and may name files or quote what a program wrote: nothing of it acts on the terminal.

use std::io::{self, ErrorKind, Stdout, Write};
use std::sync::OnceLock;

/// Unlike that of std it does not panic.
macro_rules! println {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = std::writeln!($crate::host::output::stdout(), $($text)*);
    }};
}

/// Unlike that of std it does not panic.
macro_rules! eprintln {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let text = std::format!($($text)*);
        let _ = std::writeln!(std::io::stderr(), "{}", $crate::host::printable::on_terminal(&text));
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

/// Keeps the first error of stdout for [`lost`].
pub(crate) fn remember<T>(result: io::Result<T>) -> io::Result<T> {
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
