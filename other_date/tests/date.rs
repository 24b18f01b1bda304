//! What a program reads and waits for under the library: the test starts itself once more with it.
#![expect(unsafe_code, reason = "functions of libc")]

use std::io::Error;
use std::mem::zeroed;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use libc::timespec;

const PART: &str = "PART_OF_THE_TEST";

fn library() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libfakegpu_date.so")
}

fn seconds(read: impl FnOnce(&mut timespec) -> i32) -> i64 {
    let mut moment = timespec { tv_sec: 0, tv_nsec: 0 };
    assert!(read(&mut moment) >= 0, "{}", Error::last_os_error());
    moment.tv_sec
}

/// The date by each function that tells it, seconds since 1970.
fn by_libc() -> [i64; 5] {
    // SAFETY: every pointer is null or to what lives here.
    unsafe {
        let mut day: libc::timeval = zeroed();
        libc::gettimeofday(&raw mut day, std::ptr::null_mut());
        let clock = |id| seconds(|moment| libc::clock_gettime(id, moment));
        [
            libc::time(std::ptr::null_mut()),
            day.tv_sec,
            clock(libc::CLOCK_REALTIME),
            clock(libc::CLOCK_REALTIME_COARSE),
            SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64,
        ]
    }
}

/// What the inner process prints: its dates and a moment of the clock that has none.
#[test]
fn inner() {
    if std::env::var_os(PART).is_none() {
        return;
    }
    // SAFETY: a clock of this machine.
    let up = seconds(|moment| unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, moment) });
    println!("dates {:?} up {up}", by_libc());
    waits_end();
}

/// A deadline by either clock is where it was, neither past nor in 400 days.
fn waits_end() {
    const LONG: Duration = Duration::from_millis(50);
    let after = |id| {
        let mut moment = timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: it is written to.
        unsafe { libc::clock_gettime(id, &raw mut moment) };
        let ns = moment.tv_nsec + LONG.as_nanos() as i64;
        timespec { tv_sec: moment.tv_sec + ns / 1_000_000_000, tv_nsec: ns % 1_000_000_000 }
    };
    let lasts = |what: &str, wait: &mut dyn FnMut()| {
        let began = Instant::now();
        wait();
        assert!(began.elapsed() >= LONG, "{what} did not wait");
    };
    // SAFETY: objects of libc that live here, which no other thread knows.
    unsafe {
        let mut semaphore: libc::sem_t = zeroed();
        libc::sem_init(&raw mut semaphore, 0, 0);
        let until = after(libc::CLOCK_REALTIME);
        lasts("sem_timedwait", &mut || {
            assert_eq!(libc::sem_timedwait(&raw mut semaphore, &raw const until), -1);
            assert_eq!(Error::last_os_error().raw_os_error(), Some(libc::ETIMEDOUT));
        });
        for id in [libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC] {
            let mut attributes: libc::pthread_condattr_t = zeroed();
            libc::pthread_condattr_init(&raw mut attributes);
            libc::pthread_condattr_setclock(&raw mut attributes, id);
            let mut variable: libc::pthread_cond_t = zeroed();
            libc::pthread_cond_init(&raw mut variable, &raw const attributes);
            let mut mutex = libc::PTHREAD_MUTEX_INITIALIZER;
            libc::pthread_mutex_lock(&raw mut mutex);
            let until = after(id);
            lasts("pthread_cond_timedwait", &mut || {
                let code = libc::pthread_cond_timedwait(&raw mut variable, &raw mut mutex, &raw const until);
                assert_eq!(code, libc::ETIMEDOUT);
            });
            let until = after(id);
            lasts("clock_nanosleep", &mut || {
                let code = libc::clock_nanosleep(id, libc::TIMER_ABSTIME, &raw const until, std::ptr::null_mut());
                assert_eq!(code, 0);
            });
            let timer = libc::timerfd_create(id, 0);
            let zero = timespec { tv_sec: 0, tv_nsec: 0 };
            let new = libc::itimerspec { it_interval: zero, it_value: after(id) };
            lasts("timerfd_settime", &mut || {
                libc::timerfd_settime(timer, libc::TFD_TIMER_ABSTIME, &raw const new, std::ptr::null_mut());
                let mut count = 0_u64;
                assert_eq!(libc::read(timer, (&raw mut count).cast(), 8), 8);
            });
            libc::close(timer);
        }
    }
}

#[test]
fn dates_are_later_and_nothing_else_is() {
    let program = std::env::current_exe().unwrap();
    let output = Command::new("timeout")
        .arg("60")
        .arg(program)
        .args(["--exact", "inner", "--nocapture"])
        .env(PART, "inner")
        .env("LD_PRELOAD", library())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let line = text.lines().find_map(|line| line.split_once("dates [")).expect(&text).1;
    let (dates, up) = line.split_once("] up ").unwrap();
    let now = by_libc()[0];
    for date in dates.split(", ") {
        let later = date.parse::<i64>().unwrap() - now;
        // 400 days, 7 hours and 13 minutes, but for what the test takes.
        assert!((34_585_980 - 120..=34_585_980).contains(&later), "{later} s later");
    }
    let up: i64 = up.trim().parse().unwrap();
    // SAFETY: a clock of this machine.
    let up_now = seconds(|moment| unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, moment) });
    assert!((up_now - 120..=up_now).contains(&up), "up for {up} s instead of {up_now} s");
}
