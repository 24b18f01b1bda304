//! Steps against figures worked out by hand.

use protocol::ids::Rank;
use protocol::report::DeviceSteps;

use super::*;

fn mark(by: StepMark, host_ns: u64) -> Mark {
    Mark { by, is_begin: false, host_ns }
}

#[test]
fn a_step_ends_when_the_host_is_there_and_its_work_has_ended() {
    let by = StepMark::Optimizer;
    let marks = [mark(by, 100), mark(by, 200), mark(by, 900)];
    // The device is behind at first, then the host is; work of another stream of step 1 outlasts that of step 2.
    assert_eq!(windows(&marks, &[350, 300, 600, 999]), Some((by, vec![(0, 350), (350, 350), (350, 900)])));
    assert_eq!(windows(&marks[..1], &[]), Some((by, vec![(0, 100)])));
    assert_eq!(windows(&[], &[5]), None);
}

#[test]
fn ranges_leave_out_what_is_between_them_and_go_before_optimizer_steps() {
    let begin = |host_ns| Mark { by: StepMark::Nvtx, is_begin: true, host_ns };
    let marks =
        [begin(10), mark(StepMark::Optimizer, 20), mark(StepMark::Nvtx, 30), begin(70), mark(StepMark::Nvtx, 80)];
    assert_eq!(windows(&marks, &[15, 0, 40, 60, 95]), Some((StepMark::Nvtx, vec![(15, 40), (70, 95)])));
    // A range that is still open is none.
    assert_eq!(windows(&marks[..2], &[15, 40]), Some((StepMark::Optimizer, vec![(0, 40)])));
}

fn activity() -> (Activity, Intervals) {
    let mut activity = Activity::default();
    // Two streams compute: 100 to 200 and 150 to 260 are 160. A third copies within.
    [(100, 200), (150, 260), (160, 170), (400, 500)].into_iter().for_each(|one| activity.computing.add(one));
    // A collective: 60 of its 100 are hidden.
    activity.communicating.add((200, 300));
    // It waited for others from 290 on, in vain for 50: nothing ran from 300 to 340.
    activity.waiting.add((290, 340));
    activity.communicating.add((340, 350));
    // The kernel at 400 could have begun at 360, and that at 100 at 0; the one at 150 was late, too, but nothing was idle.
    activity.late = vec![(360, 400), (0, 100), (20, 150)];
    let mut host_waits = Intervals::default();
    host_waits.add((270, 350));
    (activity, host_waits)
}

#[test]
fn several_streams_count_once() {
    let (mut activity, mut host_waits) = activity();
    let figures = activity.figures(&mut host_waits, 520);
    let all = figures.step(1, (0, 520));
    assert_eq!((all.duration_ns, all.busy_ns, all.computing_ns, all.communication_ns), (520, 310, 260, 110));
    assert_eq!((all.exposed_communication_ns, all.collective_wait_ns), (50, 40));
    // 0 to 100, 360 to 400, and 500 to 520, when nothing was submitted any more.
    assert_eq!((all.launch_bound_ns, all.host_wait_ns), (100 + 40 + 20, 80));
    assert_eq!((all.overlap_share, all.launch_bound_share), (Some(0.545), Some(0.308)));
    assert_eq!((figures.busy_ns(), figures.exposed_communication_ns()), (310, 50));
    // What is neither busy nor waiting nor the host's fault: 350 to 360.
    assert_eq!(all.duration_ns - all.busy_ns - all.collective_wait_ns - all.launch_bound_ns, 10);

    let part = figures.step(2, (250, 420));
    assert_eq!((part.busy_ns, part.computing_ns, part.communication_ns), (80, 30, 60));
    assert_eq!((part.exposed_communication_ns, part.collective_wait_ns, part.launch_bound_ns), (50, 40, 40));
    let empty = figures.step(3, (350, 350));
    assert_eq!((empty.duration_ns, empty.overlap_share, empty.launch_bound_share), (0, None, None));
}

fn step(number: u64, duration_ns: u64, exposed_communication_ns: u64, collective_wait_ns: u64) -> StepTime {
    let mut activity = Activity::default();
    activity.computing.add((0, 100));
    activity.communicating.add((100, 100 + exposed_communication_ns));
    let wait = 100 + exposed_communication_ns;
    activity.waiting.add((wait, wait + collective_wait_ns));
    activity.figures(&mut Intervals::default(), 0).step(number, (0, duration_ns))
}

fn steps(rank: u32, steps: &[StepTime]) -> DeviceSteps {
    device_steps(Some(Rank(rank)), 0, StepMark::Optimizer, steps, 0).unwrap()
}

#[test]
fn the_first_step_is_no_sample() {
    let all = [step(1, 9000, 0, 0), step(2, 400, 50, 0), step(3, 300, 50, 0), step(4, 500, 0, 0), step(5, 300, 0, 0)];
    let short = steps(0, &all);
    let numbers = |step: &Option<StepTime>| step.as_ref().map(|step| step.step);
    assert_eq!((short.count, short.first.step, short.last.step), (5, 1, 5));
    // In order: 300 (3), 300 (5), 400 (2), 500 (4).
    assert_eq!(
        (numbers(&short.shortest), numbers(&short.median), numbers(&short.longest)),
        (Some(3), Some(5), Some(4))
    );
    let total = short.total.unwrap();
    assert_eq!((total.step, total.duration_ns, total.exposed_communication_ns, total.busy_ns), (0, 1500, 100, 500));
    let one = steps(0, &all[..1]);
    assert_eq!((one.median, one.total), (None, None));
    assert_eq!(device_steps(None, 0, StepMark::Nvtx, &[], 0), None);
}

#[test]
fn the_slowest_rank_is_the_one_that_others_wait_for() {
    // Both take 1000 a step; rank 0 waits for 300 of that, so rank 1 is what takes the time.
    let ranks = [(1, 0), (0, 300)].map(|(rank, wait)| steps(rank, &[step(1, 5, 0, 0), step(2, 1000, 100, wait)]));
    let run = run_time(true, ranks.to_vec());
    assert_eq!((run.slowest_rank, run.step_us), (Some(Rank(1)), Some(1.0)));
    assert_eq!(run.steps.iter().map(|steps| steps.rank).collect::<Vec<_>>(), [Some(Rank(0)), Some(Rank(1))]);
    assert_eq!((run.exposed_share, run.busy_share, run.overlap_share), (Some(0.1), Some(0.2), Some(0.0)));
    assert_eq!((run.collective_wait_share, run.launch_bound_share), (Some(0.15), Some(0.0)));
    // Of equal ranks, the lowest.
    let equal = [1, 0].map(|rank| steps(rank, &[step(1, 5, 0, 0), step(2, 1000, 0, 0)]));
    assert_eq!(run_time(false, equal.to_vec()).slowest_rank, Some(Rank(0)));
    let none = run_time(false, Vec::new());
    assert_eq!((none.step_us, none.slowest_rank, none.busy_share, none.is_calibrated), (None, None, None, false));
}
