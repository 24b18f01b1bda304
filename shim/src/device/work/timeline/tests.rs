use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::time::Duration;

use dataplane::lock::Mutex;

use super::*;
use crate::device;
use crate::device::work::stream;

static SEEN: Mutex<Vec<Done>> = Mutex::new(Vec::new());

/// What the streams did since the last call, of other tests too.
fn seen(stream: u64) -> Vec<Done> {
    SEEN.lock().iter().filter(|done| done.stream == stream).cloned().collect()
}

#[test]
fn work_is_told_to_who_asked_when_it_was_submitted() {
    let stream = stream::unnamed(device::get(3).unwrap(), stream::Kind::NonBlocking);
    assert!(submit(&stream, || unreachable!("nobody asks")).is_none());
    subscribe(Subscriber::Tests, |done| SEEN.lock().push(done.clone()));
    let (open, gate) = mpsc::channel::<()>();
    let first = submit(&stream, || Work::library("first"));
    stream::enqueue(
        &stream,
        Box::new(move || {
            let _running = begin(first);
            gate.recv_timeout(Duration::from_secs(30)).unwrap();
        }),
    );
    let second = {
        let _node = InNode::begin(Node { graph: 7, node: 8 });
        submit(&stream, || Work::library("second"))
    };
    static DID_RUN: AtomicBool = AtomicBool::new(false);
    stream.run(move || {
        let mut running = begin(second);
        running.as_mut().unwrap().complete(|work| work.bytes = 5);
        DID_RUN.store(true, Ordering::Relaxed);
    });
    let nothing = submit(&stream, || Work::library("nothing"));
    stream.run(move || begin(nothing).unwrap().discard());
    unsubscribe(Subscriber::Tests);
    assert!(submit(&stream, || unreachable!("nobody asks any more")).is_none());
    assert!(!DID_RUN.load(Ordering::Relaxed) && seen(stream.id).is_empty());
    open.send(()).unwrap();
    stream.synchronize();

    let done = seen(stream.id);
    let [first, second] = done.as_slice() else { panic!("{done:?}") };
    assert_eq!((&*first.work.name, first.device, first.origin.node), ("first", 3, None));
    assert_eq!((first.context, &first.work.kind), (0, &Kind::Library));
    assert_eq!(
        (&*second.work.name, second.work.bytes, second.origin.node),
        ("second", 5, Some(Node { graph: 7, node: 8 }))
    );
    assert!(second.origin.correlation > first.origin.correlation && second.submitted_ns < first.end_ns, "{done:?}");
    assert!(first.begin_ns <= first.end_ns && first.end_ns <= second.begin_ns, "{done:?}");
    stream::retire(&stream);
}
