//! Where ftest prints. A reader that closed the pipe (`ftest check suites | head -1`) did not want the rest; any other
//! failure to write to stdout is an error, remembered here until the exit code is chosen. Output on stderr is for people, and may
//! contain file names or text from programs: control sequences in it never reach the terminal.

use std::io::{self, ErrorKind, Stdout, Write};
use std::sync::OnceLock;

/// Unlike the one in std, it does not panic.
#[macro_export]
macro_rules! println {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = std::writeln!($crate::host::output::stdout(), $($text)*);
    }};
}

/// Unlike the one in std, it does not panic.
#[macro_export]
macro_rules! eprintln {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let text = std::format!($($text)*);
        let _ = std::writeln!(std::io::stderr(), "{}", $crate::host::printable::on_terminal(&text));
    }};
}

static LOST: OnceLock<String> = OnceLock::new();

/// A stream to stdout that remembers its first error.
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

/// Why not all of stdout could be written, if so. Flushes std's buffer first.
pub fn lost() -> Option<&'static str> {
    let _ = stdout().flush();
    LOST.get().map(String::as_str)
}

/// Keeps the first error of stdout for [`lost`].
pub fn remember<T>(result: io::Result<T>) -> io::Result<T> {
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
