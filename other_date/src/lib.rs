//! `libfakegpu_date.so`, which is preloaded into every process of a case under the relation `clock`: to them it is 400 days, 7 hours and
//! 13 minutes later. Clocks that count from the start of the machine stay as they are, and so do the times of files. What waits until
//! a date waits as long as before.
#![expect(unsafe_code, reason = "functions of libc")]

use std::ffi::{CStr, c_int, c_void};
use std::mem::transmute;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{clockid_t, itimerspec, time_t, timespec, timeval, timezone};

/// How much later it is, seconds: another day of the week, month, year and time of day.
const LATER_S: time_t = 400 * 86_400 + 7 * 3_600 + 13 * 60;

/// No machine has been up for so long, seconds: a greater deadline is a date, whichever clock a condition variable waits by. That
/// is an attribute of the variable, which POSIX lets nobody read.
const LONGEST_UPTIME_S: time_t = 1_000_000_000;

/// A function of libc, behind ours of the same name.
struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    const fn new(name: &'static CStr) -> Self {
        Self { name, found: AtomicPtr::new(null_mut()) }
    }

    /// Its address; null if this libc has no such function.
    fn find(&self) -> *mut c_void {
        let found = self.found.load(Ordering::Relaxed);
        if !found.is_null() {
            return found;
        }
        // SAFETY: a C string.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

/// The next function of the name, as a function of this type, or a return with this value.
macro_rules! next {
    ($name:ident, $type:ty, $missing:expr) => {{
        static NEXT: Next = Next::new(
            // The literal ends with the only NUL.
            match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => c"",
            },
        );
        let found = NEXT.find();
        if found.is_null() {
            return $missing;
        }
        // SAFETY: libc's function of that name has this type.
        unsafe { transmute::<*mut c_void, $type>(found) }
    }};
}

fn is_date(id: clockid_t) -> bool {
    matches!(id, libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_TAI)
}

/// # Safety
/// As for libc's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(id: clockid_t, out: *mut timespec) -> c_int {
    let next = next!(clock_gettime, unsafe extern "C" fn(clockid_t, *mut timespec) -> c_int, -1);
    // SAFETY: the caller's promise; libc has written to `out` if it says so.
    unsafe {
        let code = next(id, out);
        if code == 0 && is_date(id) {
            (*out).tv_sec += LATER_S;
        }
        code
    }
}

/// # Safety
/// As for libc's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gettimeofday(out: *mut timeval, zone: *mut timezone) -> c_int {
    let next = next!(gettimeofday, unsafe extern "C" fn(*mut timeval, *mut timezone) -> c_int, -1);
    // SAFETY: the caller's promise.
    unsafe {
        let code = next(out, zone);
        if code == 0 && !out.is_null() {
            (*out).tv_sec += LATER_S;
        }
        code
    }
}

/// # Safety
/// As for libc's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn time(out: *mut time_t) -> time_t {
    let next = next!(time, unsafe extern "C" fn(*mut time_t) -> time_t, -1);
    // SAFETY: it need not write.
    let now = unsafe { next(null_mut()) } + LATER_S;
    if !out.is_null() {
        // SAFETY: the caller's promise.
        unsafe { out.write(now) };
    }
    now
}

/// # Safety
/// As for libc's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn timespec_get(out: *mut timespec, base: c_int) -> c_int {
    const TIME_UTC: c_int = 1;
    let next = next!(timespec_get, unsafe extern "C" fn(*mut timespec, c_int) -> c_int, 0);
    // SAFETY: the caller's promise; libc has written to `out` if it returns the base.
    unsafe {
        let code = next(out, base);
        if code == TIME_UTC {
            (*out).tv_sec += LATER_S;
        }
        code
    }
}

/// The same moment for libc, if it is a date.
///
/// # Safety
/// Null or a moment.
unsafe fn deadline(moment: *const timespec) -> Option<timespec> {
    // SAFETY: the caller's promise.
    let moment = unsafe { moment.as_ref() }?;
    let seconds = if moment.tv_sec > LONGEST_UPTIME_S { moment.tv_sec - LATER_S } else { moment.tv_sec };
    Some(timespec { tv_sec: seconds, tv_nsec: moment.tv_nsec })
}

/// Functions that wait until a moment, their last argument.
macro_rules! waits {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {$(
        /// # Safety
        /// As for libc's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type,)* until: *const timespec) -> c_int {
            let next = next!($name, unsafe extern "C" fn($($type,)* *const timespec) -> c_int, libc::ENOSYS);
            // SAFETY: the caller's promise.
            unsafe {
                let moment = deadline(until);
                next($($argument,)* moment.as_ref().map_or(until, |moment| moment))
            }
        }
    )*};
}

waits! {
    pthread_cond_timedwait(variable: *mut c_void, mutex: *mut c_void);
    pthread_cond_clockwait(variable: *mut c_void, mutex: *mut c_void, clock: clockid_t);
    pthread_mutex_timedlock(mutex: *mut c_void);
    pthread_mutex_clocklock(mutex: *mut c_void, clock: clockid_t);
    pthread_rwlock_timedrdlock(lock: *mut c_void);
    pthread_rwlock_clockrdlock(lock: *mut c_void, clock: clockid_t);
    pthread_rwlock_timedwrlock(lock: *mut c_void);
    pthread_rwlock_clockwrlock(lock: *mut c_void, clock: clockid_t);
    pthread_timedjoin_np(thread: libc::pthread_t, returned: *mut *mut c_void);
    sem_timedwait(semaphore: *mut c_void);
    sem_clockwait(semaphore: *mut c_void, clock: clockid_t);
}

/// # Safety
/// As for libc's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_nanosleep(
    id: clockid_t,
    flags: c_int,
    request: *const timespec,
    rest: *mut timespec,
) -> c_int {
    type Function = unsafe extern "C" fn(clockid_t, c_int, *const timespec, *mut timespec) -> c_int;
    let next = next!(clock_nanosleep, Function, libc::ENOSYS);
    // SAFETY: the caller's promise.
    unsafe {
        let moment = if flags & libc::TIMER_ABSTIME != 0 { deadline(request) } else { None };
        next(id, flags, moment.as_ref().map_or(request, |moment| moment), rest)
    }
}

/// Functions that set a timer, by a moment if the flags say so; what is left comes back as a duration.
macro_rules! timers {
    ($($name:ident($type:ty, $absolute:path);)*) => {$(
        /// # Safety
        /// As for libc's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            timer: $type,
            flags: c_int,
            new: *const itimerspec,
            old: *mut itimerspec,
        ) -> c_int {
            type Function = unsafe extern "C" fn($type, c_int, *const itimerspec, *mut itimerspec) -> c_int;
            let next = next!($name, Function, -1);
            // SAFETY: the caller's promise.
            unsafe {
                let moment = if flags & $absolute != 0 { new.as_ref() } else { None };
                let moment = moment.map(|new| {
                    let value = deadline(&raw const new.it_value).unwrap_or(new.it_value);
                    itimerspec { it_interval: new.it_interval, it_value: value }
                });
                next(timer, flags, moment.as_ref().map_or(new, |moment| moment), old)
            }
        }
    )*};
}

timers! {
    timer_settime(libc::timer_t, libc::TIMER_ABSTIME);
    timerfd_settime(c_int, libc::TFD_TIMER_ABSTIME);
}
