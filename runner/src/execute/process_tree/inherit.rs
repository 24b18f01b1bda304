//! Inherited limits. ftest raises its own limit on open descriptors, but programs get the user's. The umask is the user's
//! for files of ftest, but programs of a case never get a looser one than 022.

use std::sync::OnceLock;

use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit};

/// More descriptors than any run needs; some programs look at every number below the limit.
const MOST: u64 = 1 << 20;
/// The umask of programs of cases, unless the user's is stricter: their files are compared, and must not depend on
/// whether a user has 002 or 022.
const UMASK: u32 = 0o022;

/// Whose umask a program gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UmaskOf {
    /// A program of a suite's case.
    Case,
    /// A program that acts for the user: a typed command, the coordinator.
    User,
}

/// The user's limits, and ftest's limit on descriptors.
#[derive(Clone, Copy, Debug)]
struct User {
    descriptors: Rlimit,
    raised: Rlimit,
    umask: Mode,
}

static USER: OnceLock<User> = OnceLock::new();

/// Raises this process's soft limit on descriptors to the hard limit, once. Programs do not inherit that.
pub fn raise_limits() {
    USER.get_or_init(|| {
        let descriptors = rustix::process::getrlimit(Resource::Nofile);
        let most = descriptors.maximum.map_or(MOST, |maximum| maximum.min(MOST));
        if descriptors.current.is_some_and(|current| current < most) {
            let raised = Rlimit { current: Some(most), maximum: descriptors.maximum };
            // If it is refused, there are just fewer.
            let _ = rustix::process::setrlimit(Resource::Nofile, raised);
        }
        User { descriptors, raised: rustix::process::getrlimit(Resource::Nofile), umask: umask() }
    });
}

/// Maximum number of descriptors that this process may have open.
pub(in crate::execute) fn most_descriptors() -> u64 {
    let limit = USER.get().map_or_else(|| rustix::process::getrlimit(Resource::Nofile), |user| user.raised);
    limit.current.unwrap_or(u64::MAX)
}

/// This process's umask. Reading it requires setting it.
fn umask() -> Mode {
    let umask = rustix::process::umask(Mode::from_raw_mode(UMASK));
    rustix::process::umask(umask);
    umask
}

/// Called in the child that becomes a program, between fork and exec: two system calls and nothing else.
pub(in crate::execute) fn bequeath(umask: UmaskOf) -> std::io::Result<()> {
    if let Some(user) = USER.get() {
        rustix::process::setrlimit(Resource::Nofile, user.descriptors)?;
        let strict = match umask {
            UmaskOf::Case => Mode::from_raw_mode(UMASK),
            UmaskOf::User => Mode::empty(),
        };
        rustix::process::umask(user.umask | strict);
    }
    Ok(())
}
