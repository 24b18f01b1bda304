use std::cell::RefCell;
use std::sync::mpsc;

use super::*;

const DEADLINE: Duration = Duration::from_secs(10);

/// Every test that uses a device has its own, so that tests do not wait for each other.
fn device(ordinal: i32) -> &'static Device {
    crate::device::get(ordinal).unwrap()
}

fn stream(device: &Device, kind: Kind) -> Arc<Stream> {
    STREAMS.get(create(device, kind, 0)).unwrap()
}

/// A task that waits until it is allowed to go on.
fn gate(stream: &Arc<Stream>) -> mpsc::Sender<()> {
    let (open, wait) = mpsc::channel();
    enqueue(stream, Box::new(move || wait.recv_timeout(DEADLINE).unwrap()));
    open
}

#[test]
fn work_behind_a_busy_task_keeps_its_order() {
    let stream = stream(device(0), Kind::NonBlocking);
    let (sender, receiver) = mpsc::channel();
    let open = gate(&stream);
    for number in 0..100 {
        let sender = sender.clone();
        stream.run(move || sender.send(number).unwrap());
    }
    assert!(!stream.is_idle());
    assert!(receiver.try_recv().is_err(), "nothing ran before the gate");
    open.send(()).unwrap();
    stream.synchronize();
    assert_eq!(receiver.try_iter().collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
    let here = std::thread::current().id();
    let (sender, receiver) = mpsc::channel();
    stream.run(move || sender.send(std::thread::current().id()).unwrap());
    assert_eq!(receiver.try_recv(), Ok(here), "an idle stream works in the caller");
}

#[test]
fn the_legacy_stream_waits_for_blocking_streams_and_they_for_it() {
    let device = device(1);
    let (legacy, blocking, free) = (legacy(device), stream(device, Kind::Blocking), stream(device, Kind::NonBlocking));
    let (sender, receiver) = mpsc::channel();
    let say = |word: &'static str| {
        let sender = sender.clone();
        move || sender.send(word).unwrap()
    };
    let open = gate(&blocking);
    legacy.run(say("legacy"));
    free.run(say("free"));
    assert_eq!(receiver.recv_timeout(DEADLINE), Ok("free"));
    blocking.run(say("blocking after legacy"));
    assert!(!legacy.is_idle() && receiver.try_recv().is_err());
    open.send(()).unwrap();
    synchronize_device(device);
    assert_eq!(receiver.try_iter().collect::<Vec<_>>(), ["legacy", "blocking after legacy"]);
}

#[test]
fn a_waiter_does_the_work_that_nobody_began() {
    let (first, second) = (stream(device(5), Kind::NonBlocking), stream(device(5), Kind::NonBlocking));
    let here = std::thread::current().id();
    let open = gate(&first);
    // Nobody does it but a thread that waits: it is not a task.
    hold_up(&second, first.tail());
    assert!(!second.is_idle());
    open.send(()).unwrap();
    second.synchronize();
    assert!(second.is_idle() && first.is_idle());
    // It has no thread of its own, so the caller must do both tasks, in order.
    let (sender, receiver) = mpsc::channel();
    for number in 0..2 {
        let sender = sender.clone();
        let task = Box::new(move || sender.send((number, std::thread::current().id())).unwrap());
        second.push(&mut second.lock(), Item::Task(task));
    }
    hold_up(&first, second.tail());
    first.synchronize();
    assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [(0, here), (1, here)]);
    assert_eq!(streams(first.device).unfinished.load(Ordering::Acquire), 0);
}

#[test]
fn a_destroyed_stream_finishes_its_work_and_its_handle_is_dead() {
    let device = device(2);
    let handle = create(device, Kind::NonBlocking, 0);
    let stream = resolve(handle).unwrap();
    let (sender, receiver) = mpsc::channel();
    let open = gate(&stream);
    stream.run(move || sender.send(()).unwrap());
    destroy(handle).unwrap();
    assert_eq!(destroy(handle), Err(CudaError::INVALID_HANDLE));
    assert!(resolve(handle).is_err());
    open.send(()).unwrap();
    receiver.recv_timeout(DEADLINE).unwrap();
}

#[test]
fn a_threads_own_stream_ends_with_it_and_finishes_its_work() {
    const THREADS: usize = 50;
    struct Ends(mpsc::Sender<&'static str>);
    impl Drop for Ends {
        fn drop(&mut self) {
            let _ = self.0.send("ended");
        }
    }
    thread_local! {
        static ENDS: RefCell<Option<Ends>> = const { RefCell::new(None) };
    }
    let (sender, receiver) = mpsc::channel();
    let mut gates = Vec::new();
    for _ in 0..THREADS {
        let sender = sender.clone();
        let program = move || {
            let stream = per_thread(device(7));
            let open = gate(&stream);
            // Not in a thread that waits, since there is none: in the stream's own.
            enqueue(
                &stream,
                Box::new(move || {
                    sender.send("done").unwrap();
                    ENDS.set(Some(Ends(sender)));
                }),
            );
            // Nobody does this one but a thread that waits or ends the stream.
            hold_up(&stream, stream.tail());
            open
        };
        gates.push(std::thread::spawn(program).join().unwrap());
    }
    assert!(receiver.try_recv().is_err(), "their work still waits");
    drop(sender);
    for open in gates {
        open.send(()).unwrap();
    }
    let mut words: Vec<_> = std::iter::from_fn(|| receiver.recv_timeout(DEADLINE).ok()).collect();
    words.sort_unstable();
    assert_eq!(words, [["done"; THREADS], ["ended"; THREADS]].concat());
    assert!(is_quiet(device(7)));
}

#[test]
fn a_thread_that_ends_has_the_default_stream_instead_of_its_own() {
    struct Late(mpsc::Sender<Kind>);
    impl Drop for Late {
        fn drop(&mut self) {
            let _ = self.0.send(per_thread(device(7)).kind);
        }
    }
    thread_local! {
        static LATE: RefCell<Option<Late>> = const { RefCell::new(None) };
    }
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        // What was made last is dropped first.
        LATE.set(Some(Late(sender)));
        per_thread(device(7));
    })
    .join()
    .unwrap();
    assert_eq!(receiver.recv_timeout(DEADLINE), Ok(Kind::Legacy));
}

#[test]
fn a_worker_sleeps_as_long_as_a_few_tasks_of_waiters_take() {
    let us = Duration::from_micros;
    // A task takes 0.2 ms.
    assert_eq!(next_doze(us(4000), 20), us(800));
    assert_eq!(next_doze(us(800), 4), us(800));
    // No task ended in that time: they are longer.
    assert_eq!(next_doze(us(800), 0), us(3200));
    assert_eq!(next_doze(us(200), 1000), DOZE);
    assert_eq!(next_doze(LONGEST_DOZE, 0), LONGEST_DOZE);
}

/// Its worker sleeps because others did all its work; nobody wakes it for this task.
#[test]
fn a_task_that_nobody_waits_for_is_done_after_many_that_waiters_did() {
    let stream = stream(device(3), Kind::NonBlocking);
    for round in 0..20 {
        for _ in 0..50 {
            enqueue(&stream, Box::new(|| std::thread::sleep(Duration::from_micros(50))));
            stream.synchronize();
        }
        let (done, is_done) = mpsc::channel();
        enqueue(&stream, Box::new(move || done.send(round).unwrap()));
        assert_eq!(is_done.recv_timeout(Duration::from_secs(20)), Ok(round));
    }
}
