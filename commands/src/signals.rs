//! The signals that ftest listens to while cases run.

use std::task::Poll;

use runner::verdict::exit_code::ExitCode;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The action that a signal requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignalAction {
    /// End: in order the first time, immediately the second time.
    End(ExitCode),
    /// End immediately.
    EndNow(ExitCode),
    /// Stop until SIGCONT.
    Pause,
}

/// Signals are caught from the first [`Signals::new`] until the process ends.
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
