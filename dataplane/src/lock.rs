//! `Mutex`, `RwLock` and `Condvar` of the standard library without poisoning. A panic while a lock is held is caught and reported at
//! the C boundary; the next thread that locks works with the state as it is.

use std::sync::{self, MutexGuard, PoisonError, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use std::time::Duration;

/// [`std::sync::Mutex`], whose `lock` returns the guard.
#[derive(Debug, Default)]
pub struct Mutex<T>(sync::Mutex<T>);

impl<T> Mutex<T> {
    /// An unlocked mutex.
    pub const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    /// Waits until no other thread holds it.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The guard, or `None` while another thread holds it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// [`std::sync::RwLock`], whose `read` and `write` return the guard.
#[derive(Debug, Default)]
pub struct RwLock<T>(sync::RwLock<T>);

impl<T> RwLock<T> {
    /// An unlocked lock.
    pub const fn new(value: T) -> Self {
        Self(sync::RwLock::new(value))
    }

    /// Waits until no thread writes.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The guard, or `None` while another thread reads or writes.
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        match self.0.try_write() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Waits until no other thread reads or writes.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// [`std::sync::Condvar`] for the guards of a [`Mutex`].
#[derive(Debug, Default)]
pub struct Condvar(sync::Condvar);

impl Condvar {
    /// A condition without waiters.
    pub const fn new() -> Self {
        Self(sync::Condvar::new())
    }

    /// Waits for a notification; it can also return without one.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while the condition holds.
    pub fn wait_while<'a, T>(&self, guard: MutexGuard<'a, T>, holds: impl FnMut(&mut T) -> bool) -> MutexGuard<'a, T> {
        self.0.wait_while(guard, holds).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a notification, at most that long; it can also return without one.
    pub fn wait_timeout<'a, T>(&self, guard: MutexGuard<'a, T>, limit: Duration) -> MutexGuard<'a, T> {
        self.0.wait_timeout(guard, limit).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Wakes one thread that waits.
    #[inline]
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all threads that wait.
    #[inline]
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn a_panic_under_a_lock_leaves_it_usable() {
        let (mutex, shared) = (Mutex::new(1), RwLock::new(1));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let (mut a, mut b) = (mutex.lock(), shared.write());
            (*a, *b) = (2, 2);
            panic!("with both locks held");
        }));
        assert!(panicked.is_err());
        assert_eq!(*mutex.lock(), 2);
        assert_eq!(*shared.read(), 2);
        assert_eq!(*shared.write(), 2);
        assert_eq!(mutex.try_lock().as_deref(), Some(&2));
        let held = mutex.lock();
        assert!(mutex.try_lock().is_none());
        assert_eq!(shared.try_write().as_deref(), Some(&2));
        let read = shared.read();
        assert!(shared.try_write().is_none());
        drop(read);
        assert_eq!(*Condvar::new().wait_timeout(held, Duration::ZERO), 2);
    }
}
