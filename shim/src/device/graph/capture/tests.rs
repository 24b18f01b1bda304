use super::*;
use crate::device::work::event::{self, Event, Use};
use crate::device::work::stream;

/// Held by tests, because they look at all captures of the process.
static ALONE: Mutex<()> = Mutex::new(());

struct Streams {
    device: &'static Device,
    one: Arc<Stream>,
    two: Arc<Stream>,
    other: Arc<Stream>,
    event: Arc<Event>,
}

impl Streams {
    fn new() -> Self {
        let device = crate::device::get(6).unwrap();
        let stream = || stream::resolve(stream::create(device, Kind::NonBlocking, 0)).unwrap();
        let event = event::create(device, Use { has_timing: false, is_interprocess: false });
        let event = event::resolve(event).unwrap();
        Self { device, one: stream(), two: stream(), other: stream(), event }
    }

    fn record(&self, stream: &Arc<Stream>) -> CudaResult {
        match record(stream)? {
            Some(captured) => self.event.in_capture(captured),
            None => self.event.record(stream)?,
        }
        Ok(())
    }

    fn wait(&self, stream: &Arc<Stream>) -> CudaResult<bool> {
        wait(stream, self.event.captured(), self.event.is_fresh())
    }

    fn status(&self) -> u32 {
        info(&self.one).map_or(0, |info| info.status)
    }
}

fn empty(stream: &Arc<Stream>) -> CudaResult {
    crate::device::graph::submit::submit(Operation::Empty, stream)
}

/// What a step of a program does to a capture in `one`.
type Step = fn(&Streams) -> CudaResult;

#[test]
fn what_must_not_happen_by_table() {
    let _alone = ALONE.lock();
    let cases: &[(&str, Step, CudaResult, CudaResult)] = &[
        ("nothing", |_| Ok(()), Ok(()), Ok(())),
        (
            "wait for the stream",
            |s| host_waits(&s.one),
            Err(CudaError::CAPTURE_UNSUPPORTED),
            Err(CudaError::CAPTURE_INVALIDATED),
        ),
        ("wait for another", |s| host_waits(&s.two), Ok(()), Ok(())),
        (
            "wait for the device",
            |s| host_waits_for(s.device),
            Err(CudaError::CAPTURE_UNSUPPORTED),
            Err(CudaError::CAPTURE_INVALIDATED),
        ),
        ("malloc", |_| unsafe_call(), Err(CudaError::CAPTURE_UNSUPPORTED), Err(CudaError::CAPTURE_INVALIDATED)),
        (
            "malloc in a relaxed thread",
            |_| {
                exchange_mode(2)?;
                let result = unsafe_call();
                exchange_mode(0)?;
                result
            },
            Ok(()),
            Ok(()),
        ),
        ("begin again", |s| begin(&s.one, Mode::Global, None), Err(CudaError::ILLEGAL_STATE), Ok(())),
        (
            "the legacy stream",
            |s| begin(&stream::legacy(s.device), Mode::Global, None),
            Err(CudaError::CAPTURE_UNSUPPORTED),
            Ok(()),
        ),
        (
            "work in the legacy stream, which does not block this one",
            |s| empty(&stream::legacy(s.device)),
            Ok(()),
            Ok(()),
        ),
        (
            "fork without join",
            |s| {
                s.record(&s.one)?;
                s.wait(&s.two)?;
                empty(&s.two)
            },
            Ok(()),
            Err(CudaError::CAPTURE_UNJOINED),
        ),
        (
            "fork and join",
            |s| {
                s.record(&s.one)?;
                s.wait(&s.two)?;
                empty(&s.two)?;
                empty(&s.one)?;
                s.record(&s.two)?;
                s.wait(&s.one).map(drop)
            },
            Ok(()),
            Ok(()),
        ),
        (
            "an event of other work",
            |s| {
                s.record(&s.other)?;
                s.wait(&s.one).map(drop)
            },
            Err(CudaError::CAPTURE_ISOLATION),
            Err(CudaError::CAPTURE_INVALIDATED),
        ),
        (
            "another capture",
            |s| {
                begin(&s.other, Mode::Relaxed, None)?;
                s.record(&s.other)?;
                let result = s.wait(&s.one).map(drop);
                assert_eq!(end(&s.other).map(drop), Err(CudaError::CAPTURE_INVALIDATED));
                result
            },
            Err(CudaError::CAPTURE_MERGE),
            Err(CudaError::CAPTURE_INVALIDATED),
        ),
        (
            "end in a stream that joined",
            |s| {
                s.record(&s.one)?;
                s.wait(&s.two)?;
                end(&s.two).map(drop)
            },
            Err(CudaError::CAPTURE_UNMATCHED),
            Err(CudaError::CAPTURE_INVALIDATED),
        ),
        (
            "end in another thread",
            |s| std::thread::scope(|scope| scope.spawn(|| end(&s.one).map(drop)).join().unwrap()),
            Err(CudaError::CAPTURE_WRONG_THREAD),
            Ok(()),
        ),
        (
            "ask for a captured event",
            |s| {
                s.record(&s.one)?;
                host_uses(s.event.captured())
            },
            Err(CudaError::CAPTURED_EVENT),
            Err(CudaError::CAPTURE_INVALIDATED),
        ),
        (
            "the stream ends",
            |s| {
                ends(&s.one);
                Ok(())
            },
            Ok(()),
            Err(CudaError::ILLEGAL_STATE),
        ),
    ];
    for (name, step, answer, at_the_end) in cases {
        let streams = Streams::new();
        begin(&streams.one, Mode::Global, None).unwrap();
        assert_eq!(streams.status(), 1, "{name}");
        assert_eq!(step(&streams), *answer, "{name}");
        assert_eq!(end(&streams.one).map(drop), *at_the_end, "{name}");
        assert_eq!(streams.status(), 0, "{name}");
        assert_eq!(end(&streams.one), Err(CudaError::ILLEGAL_STATE), "{name}");
    }
    assert_eq!(COUNT.load(Ordering::Relaxed), 0);
}

#[test]
fn modes_by_table() {
    let _alone = ALONE.lock();
    // The capture's mode, and whether a call in its own thread and one in another are allowed.
    for (mode, own, another) in
        [(Mode::Global, false, false), (Mode::ThreadLocal, false, true), (Mode::Relaxed, true, true)]
    {
        let streams = Streams::new();
        begin(&streams.one, mode, None).unwrap();
        let elsewhere = std::thread::scope(|scope| scope.spawn(unsafe_call).join().unwrap());
        assert_eq!(elsewhere.is_ok(), another, "{mode:?}");
        assert_eq!(unsafe_call().is_ok(), own, "{mode:?}");
        assert_eq!(end(&streams.one).is_ok(), own && another, "{mode:?}");
    }
}

#[test]
fn nodes_come_after_what_their_streams_had() {
    let _alone = ALONE.lock();
    let streams = Streams::new();
    begin(&streams.one, Mode::Relaxed, None).unwrap();
    empty(&streams.one).unwrap();
    streams.record(&streams.one).unwrap();
    streams.wait(&streams.two).unwrap();
    empty(&streams.two).unwrap();
    empty(&streams.one).unwrap();
    streams.record(&streams.two).unwrap();
    streams.wait(&streams.one).unwrap();
    empty(&streams.one).unwrap();
    assert_eq!(info(&streams.one).unwrap().count, 1);
    assert_eq!(streams.wait(&streams.other), Ok(true));
    let graph = structure::resolve(end(&streams.one).unwrap()).unwrap();
    assert_eq!(streams.wait(&streams.other), Err(CudaError::CAPTURED_EVENT));
    let entries = graph.entries();
    let [first, left, right, last] = &entries[..] else { panic!("{entries:?}") };
    assert!(first.after.is_empty());
    assert_eq!((&left.after[..], &right.after[..]), (&[first.handle][..], &[first.handle][..]));
    assert_eq!(last.after, [right.handle, left.handle]);
}
