//! The clocks of libc and libstdc++ under another clock, for a program that is no interpreter: the imports of its executable are
//! bound to functions of ours. Its libraries keep theirs: what they wait for by the clock is real. Where the executable
//! itself waits until a moment, the moment is translated.

use std::ffi::{CStr, c_int, c_long, c_uint, c_void};
use std::mem::transmute;
use std::sync::OnceLock;

use libc::{clockid_t, time_t, timespec, timeval};

use super::slots::Library;
use super::time_module::Clock;

static CLOCK: OnceLock<Clock> = OnceLock::new();

const SECOND: u64 = 1_000_000_000;

/// Binds the clocks of the program's executable, unless it is Python, whose module `time` is changed instead.
pub(crate) fn follow(clock: Clock) {
    // SAFETY: a C string.
    let is_python = unsafe { !libc::dlsym(libc::RTLD_DEFAULT, c"Py_IsInitialized".as_ptr()).is_null() };
    if !is_python && CLOCK.set(clock).is_ok() {
        // SAFETY: `bind` gets what the loader knows of the executable, which comes first.
        unsafe { libc::dl_iterate_phdr(Some(bind), std::ptr::null_mut()) };
    }
}

/// The functions that are bound, by name.
const FUNCTIONS: [(&CStr, *const c_void); 12] = [
    (c"clock_gettime", clock_gettime as *const c_void),
    (c"gettimeofday", gettimeofday as *const c_void),
    (c"time", time as *const c_void),
    (c"_ZNSt6chrono3_V212steady_clock3nowEv", steady_now as *const c_void),
    (c"_ZNSt6chrono3_V212system_clock3nowEv", system_now as *const c_void),
    (c"nanosleep", nanosleep as *const c_void),
    (c"clock_nanosleep", clock_nanosleep as *const c_void),
    (c"usleep", usleep as *const c_void),
    (c"sleep", sleep as *const c_void),
    (c"pthread_cond_timedwait", pthread_cond_timedwait as *const c_void),
    (c"pthread_cond_clockwait", pthread_cond_clockwait as *const c_void),
    (c"sem_timedwait", sem_timedwait as *const c_void),
];

/// For the executable only: the first object that the loader names.
unsafe extern "C" fn bind(info: *mut libc::dl_phdr_info, _bytes: usize, _data: *mut c_void) -> c_int {
    // SAFETY: the loader's description of an object that stays loaded.
    let executable = unsafe { Library::new(&*info) };
    for (name, function) in FUNCTIONS {
        for slot in executable.slots(|called| called == name) {
            // SAFETY: a slot of the executable for the function of that name, which ours has the type of.
            if !unsafe { executable.write(slot, function.cast_mut()) } {
                let error = std::io::Error::last_os_error();
                let name = name.to_string_lossy();
                eprintln!("fakegpu: what the program reads by {name} cannot be the modeled clock: {error}");
            }
        }
    }
    1
}

/// The program's time by a clock of libc; `None` for clocks of processor time.
fn told(id: clockid_t) -> Option<u64> {
    let clock = CLOCK.get()?;
    match id {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE => Some((clock.now)(libc::CLOCK_REALTIME)),
        libc::CLOCK_MONOTONIC | libc::CLOCK_MONOTONIC_RAW | libc::CLOCK_MONOTONIC_COARSE | libc::CLOCK_BOOTTIME => {
            Some((clock.now)(libc::CLOCK_MONOTONIC))
        }
        _ => None,
    }
}

fn slept(ns: u64) {
    if let Some(clock) = CLOCK.get() {
        (clock.slept)(ns);
    }
}

fn nanoseconds(moment: timespec) -> u64 {
    (moment.tv_sec.max(0) as u64).saturating_mul(SECOND) + moment.tv_nsec.max(0) as u64
}

fn moment(ns: u64) -> timespec {
    timespec { tv_sec: (ns / SECOND) as time_t, tv_nsec: (ns % SECOND) as c_long }
}

/// A wait until a moment of the program's clock.
struct Until {
    /// The same moment by this machine's clock.
    real: timespec,
    /// How far away it is.
    left_ns: u64,
}

impl Until {
    fn new(id: clockid_t, deadline: timespec) -> Self {
        let Some(now) = told(id) else { return Self { real: deadline, left_ns: 0 } };
        let left_ns = nanoseconds(deadline).saturating_sub(now);
        let mut real = moment(0);
        // SAFETY: `real` is written to.
        unsafe { libc::clock_gettime(id, &raw mut real) };
        Self { real: moment(nanoseconds(real).saturating_add(left_ns)), left_ns }
    }

    /// If the time is up, it is up on the program's clock, too: who waits looks there.
    fn ended(self, is_up: bool) {
        if is_up {
            slept(self.left_ns);
        }
    }
}

unsafe extern "C" fn clock_gettime(id: clockid_t, out: *mut timespec) -> c_int {
    match told(id).filter(|_| !out.is_null()) {
        Some(ns) => {
            // SAFETY: the program's pointer, as for libc's function.
            unsafe { out.write(moment(ns)) };
            0
        }
        // SAFETY: as above.
        None => unsafe { libc::clock_gettime(id, out) },
    }
}

unsafe extern "C" fn gettimeofday(out: *mut timeval, zone: *mut libc::timezone) -> c_int {
    let Some(ns) = told(libc::CLOCK_REALTIME).filter(|_| !out.is_null()) else {
        // SAFETY: as for libc's function.
        return unsafe { libc::gettimeofday(out, zone) };
    };
    // SAFETY: as for libc's function.
    unsafe { out.write(timeval { tv_sec: (ns / SECOND) as time_t, tv_usec: (ns % SECOND / 1000) as c_long }) };
    0
}

unsafe extern "C" fn time(out: *mut time_t) -> time_t {
    let seconds = told(libc::CLOCK_REALTIME).unwrap_or(0) / SECOND;
    if !out.is_null() {
        // SAFETY: the program's pointer, as for libc's function.
        unsafe { out.write(seconds as time_t) };
    }
    seconds as time_t
}

extern "C" fn steady_now() -> i64 {
    told(libc::CLOCK_MONOTONIC).unwrap_or(0) as i64
}

extern "C" fn system_now() -> i64 {
    told(libc::CLOCK_REALTIME).unwrap_or(0) as i64
}

unsafe extern "C" fn nanosleep(request: *const timespec, rest: *mut timespec) -> c_int {
    // SAFETY: as for libc's function, which has checked the pointer when it returns 0.
    unsafe {
        let code = libc::nanosleep(request, rest);
        if code == 0 {
            slept(nanoseconds(*request));
        }
        code
    }
}

unsafe extern "C" fn clock_nanosleep(
    id: clockid_t,
    flags: c_int,
    request: *const timespec,
    rest: *mut timespec,
) -> c_int {
    if request.is_null() {
        // SAFETY: libc refuses it.
        return unsafe { libc::clock_nanosleep(id, flags, request, rest) };
    }
    // SAFETY: as for libc's function.
    let asked = unsafe { *request };
    let until = if flags & libc::TIMER_ABSTIME != 0 {
        Until::new(id, asked)
    } else {
        Until { real: asked, left_ns: nanoseconds(asked) }
    };
    // SAFETY: as for libc's function.
    let code = unsafe { libc::clock_nanosleep(id, flags, &raw const until.real, rest) };
    until.ended(code == 0);
    code
}

unsafe extern "C" fn usleep(us: c_uint) -> c_int {
    // SAFETY: a number.
    let code = unsafe { libc::usleep(us) };
    slept(u64::from(us) * 1000);
    code
}

unsafe extern "C" fn sleep(seconds: c_uint) -> c_uint {
    // SAFETY: a number.
    let left = unsafe { libc::sleep(seconds) };
    slept(u64::from(seconds - left.min(seconds)) * SECOND);
    left
}

unsafe extern "C" fn pthread_cond_timedwait(
    condition: *mut libc::pthread_cond_t,
    mutex: *mut libc::pthread_mutex_t,
    deadline: *const timespec,
) -> c_int {
    // SAFETY: as for libc's function.
    unsafe {
        // Its clock is an attribute of the condition; the default one is the time of day.
        let until = Until::new(libc::CLOCK_REALTIME, *deadline);
        let code = libc::pthread_cond_timedwait(condition, mutex, &raw const until.real);
        until.ended(code == libc::ETIMEDOUT);
        code
    }
}

type CondClockwait =
    unsafe extern "C" fn(*mut libc::pthread_cond_t, *mut libc::pthread_mutex_t, clockid_t, *const timespec) -> c_int;

unsafe extern "C" fn pthread_cond_clockwait(
    condition: *mut libc::pthread_cond_t,
    mutex: *mut libc::pthread_mutex_t,
    id: clockid_t,
    deadline: *const timespec,
) -> c_int {
    // SAFETY: as for libc's function.
    unsafe {
        // From glibc 2.30 on: a program that calls it has it.
        let libc = libc::dlsym(libc::RTLD_DEFAULT, c"pthread_cond_clockwait".as_ptr());
        if libc.is_null() {
            return libc::EINVAL;
        }
        let until = Until::new(id, *deadline);
        let code = transmute::<*mut c_void, CondClockwait>(libc)(condition, mutex, id, &raw const until.real);
        until.ended(code == libc::ETIMEDOUT);
        code
    }
}

unsafe extern "C" fn sem_timedwait(semaphore: *mut libc::sem_t, deadline: *const timespec) -> c_int {
    // SAFETY: as for libc's function.
    unsafe {
        let until = Until::new(libc::CLOCK_REALTIME, *deadline);
        let code = libc::sem_timedwait(semaphore, &raw const until.real);
        until.ended(code != 0 && *libc::__errno_location() == libc::ETIMEDOUT);
        code
    }
}
