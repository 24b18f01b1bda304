//! The signals that ftest listens to while cases run.

use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::verdict::exit_code::ExitCode;

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// To end: in order the first time, at once the second.
    End(ExitCode),
    /// To end at once.
    EndNow(ExitCode),
    /// To stop until SIGCONT.
    Pause,
}

/// They are caught from the first [`Signals::new`] on, as long as the process lives.
pub(super) struct Signals {
    streams: Vec<(Signal, Wish)>,
}

impl Signals {
    pub(super) fn new() -> Signals {
        let wanted = [
            (SignalKind::interrupt(), Wish::End(ExitCode::Interrupted)),
            (SignalKind::terminate(), Wish::End(ExitCode::Terminated)),
            (SignalKind::hangup(), Wish::End(ExitCode::HungUp)),
            (SignalKind::quit(), Wish::EndNow(ExitCode::Quit)),
            (SignalKind::from_raw(libc::SIGTSTP), Wish::Pause),
        ];
        Signals { streams: wanted.into_iter().filter_map(|(kind, wish)| Some((signal(kind).ok()?, wish))).collect() }
    }

    pub(super) async fn next(&mut self) -> Wish {
        std::future::poll_fn(|context| {
            for (stream, wish) in &mut self.streams {
                if let Poll::Ready(Some(())) = stream.poll_recv(context) {
                    return Poll::Ready(*wish);
                }
            }
            Poll::Pending
        })
        .await
    }
}
