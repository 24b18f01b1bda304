//! The signals that ftest listens to while cases run.

use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::verdict::exit_code::ExitCode;

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignalAction {
    /// To end: in order the first time, at once the second.
    End(ExitCode),
    /// To end at once.
    EndNow(ExitCode),
    /// To stop until SIGCONT.
    Pause,
}

/// They are caught from the first [`Signals::new`] on, as long as the process lives.
pub(super) struct Signals {
    streams: Vec<(Signal, SignalAction)>,
}

impl Signals {
    pub(super) fn new() -> Signals {
        let wanted = [
            (SignalKind::interrupt(), SignalAction::End(ExitCode::Interrupted)),
            (SignalKind::terminate(), SignalAction::End(ExitCode::Terminated)),
            (SignalKind::hangup(), SignalAction::End(ExitCode::HungUp)),
            (SignalKind::quit(), SignalAction::EndNow(ExitCode::Quit)),
            (SignalKind::from_raw(libc::SIGTSTP), SignalAction::Pause),
        ];
        Signals {
            streams: wanted.into_iter().filter_map(|(kind, action)| Some((signal(kind).ok()?, action))).collect(),
        }
    }

    pub(super) async fn next(&mut self) -> SignalAction {
        std::future::poll_fn(|context| {
            for (stream, action) in &mut self.streams {
                if let Poll::Ready(Some(())) = stream.poll_recv(context) {
                    return Poll::Ready(*action);
                }
            }
            Poll::Pending
        })
        .await
    }
}
