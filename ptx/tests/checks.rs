//! Mistakes that a watched kernel makes, each beside its twin without it. The lines that are expected are those of the marks in
//! the text: `// A` and `// B`.

use std::fmt::Write;

use proptest::prelude::*;
use ptx::{Checks, Mistake, MistakeKind, TrapKind, Unwritten};

use crate::device::{self, Device, image, words};

const RACES: Checks = Checks { shared_races: true, init: false, sync: true };
const INIT: Checks = Checks { init: true, shared_races: false, sync: false };

/// Starts a kernel: thread in %t, a shared array `s` of 1024 words and its address in %s, %a = %s + 4 * %t, %n the word of the
/// next thread of 64, parameter in %p.
fn kernel(body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p) {{\n\
         .shared .align 16 .b32 s[1024]; .shared .align 8 .b64 gate;\n\
         .reg .u32 %t, %s, %a, %n, %r<8>; .reg .u64 %p, %x<4>; .reg .pred %q<4>;\n\
         mov.u32 %t, %tid.x; mov.u32 %s, s; mad.lo.u32 %a, %t, 4, %s;\n\
         add.u32 %n, %t, 1; and.b32 %n, %n, 63; mad.lo.u32 %n, %n, 4, %s;\n\
         ld.param.u64 %p, [p];\n{body}\nret;\n}}\n"
    )
}

fn line_of(text: &str, mark: &str) -> u32 {
    let found: Vec<usize> = (0..).zip(text.lines()).filter(|(_, line)| line.contains(mark)).map(|(at, _)| at).collect();
    assert_eq!(found.len(), 1, "{mark}");
    found[0] as u32 + 1
}

fn watched(text: &str, threads: u32, checks: Checks) -> Vec<Mistake> {
    let image = image(text);
    let mut device = Device::watched(checks);
    let out = device.put(&[0u32; 1024]);
    device.run(&image, "k", 3, threads, &[out]).unwrap();
    device.mistakes.into_inner().unwrap()
}

/// Kind, block, lines in the text.
fn found(body: &str, threads: u32, kind: MistakeKind) -> Mistake {
    let text = kernel(body);
    let checks = if kind == MistakeKind::UnwrittenShared { INIT } else { RACES };
    let mistakes = watched(&text, threads, checks);
    assert_eq!(mistakes.len(), 1, "{mistakes:#?}");
    let mistake = mistakes[0].clone();
    assert_eq!((mistake.kind, mistake.block, mistake.kernel.as_str()), (kind, [0; 3], "k"));
    let mut lines = vec![mistake.spot.line];
    lines.extend(mistake.other.as_ref().map(|(_, spot)| spot.line));
    let mut expected = vec![line_of(&text, "// A")];
    if text.contains("// B") {
        expected.push(line_of(&text, "// B"));
    }
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines, expected, "{mistake:#?}");
    mistake
}

fn clean(body: &str, threads: u32) {
    for checks in [RACES, INIT] {
        let mistakes = watched(&kernel(body), threads, checks);
        assert!(mistakes.is_empty(), "{mistakes:#?}");
    }
}

fn race(writes: bool, wrote: bool) -> MistakeKind {
    MistakeKind::SharedRace { writes, wrote }
}

#[test]
fn a_neighbor_is_read_without_a_barrier() {
    let mistake = found("st.shared.u32 [%a], %t; // A\nld.shared.u32 %r0, [%n]; // B", 64, race(true, false));
    // Thread 0 reads what thread 1 writes later.
    let (other, spot) = mistake.other.unwrap();
    assert_eq!((mistake.thread, other, mistake.address, mistake.bytes), ([1, 0, 0], [0; 3], 4, 4));
    assert_eq!(spot.ptx, "ld.shared.u32 %r0, [%n];");
    clean("st.shared.u32 [%a], %t;\nbar.sync 0;\nld.shared.u32 %r0, [%n];", 64);
}

#[test]
fn a_word_is_written_again_before_all_have_read_it() {
    let start = "st.shared.u32 [%a], %t;\nbar.sync 0;\nld.shared.u32 %r0, [%n]; // A\n";
    found(&format!("{start}st.shared.u32 [%a], %r0; // B"), 64, race(true, false));
    clean(&format!("{start}bar.sync 0;\nst.shared.u32 [%a], %r0;"), 64);
}

#[test]
fn two_threads_write_one_word() {
    found("st.shared.u32 [%s], %t; // A", 32, race(true, true));
    clean("setp.eq.u32 %q0, %t, 0;\n@%q0 st.shared.u32 [%s], %t;", 32);
    // All write the same.
    clean("mov.u32 %r0, 7;\nst.shared.u32 [%s], %r0;", 64);
}

#[test]
fn bytes_of_a_word_are_apart() {
    clean("add.u32 %r0, %s, %t;\nst.shared.u8 [%r0], %t;\nbar.sync 0;\nld.shared.u32 %r1, [%s];", 32);
}

#[test]
fn only_syncwarp_orders_a_warp() {
    let exchange = |between: &str| {
        format!(
            "and.b32 %r0, %t, 31; xor.b32 %r1, %t, 1; mad.lo.u32 %r1, %r1, 4, %s;\n\
             st.shared.u32 [%a], %t; // A\n{between}\nld.shared.u32 %r2, [%r1]; // B"
        )
    };
    clean(&exchange("bar.warp.sync 0xffffffff;"), 64);
    let wrong = kernel(&exchange("shfl.sync.idx.b32 %r3, %t, 0, 31, 0xffffffff;"));
    let mistakes = watched(&wrong, 64, RACES);
    assert_eq!(mistakes.len(), 1, "{mistakes:#?}");
    assert_eq!(mistakes[0].kind, race(false, true));
}

#[test]
fn numbered_barriers_order_those_that_come() {
    // Warp 0 writes and arrives, warp 1 waits and reads.
    let hand_over = |arrive: &str, wait: &str| {
        format!(
            "setp.lt.u32 %q0, %t, 32;\n@!%q0 bra READ;\nst.shared.u32 [%a], %t; // A\n{arrive}\nbra END;\n\
             READ:\n{wait}\nsub.u32 %r0, %a, 128; ld.shared.u32 %r1, [%r0]; // B\nEND:"
        )
    };
    clean(&hand_over("bar.arrive 1, 64;", "bar.sync 1, 64;"), 64);
    let mistakes = watched(&kernel(&hand_over("", "")), 64, RACES);
    assert_eq!(mistakes.iter().map(|m| m.kind).collect::<Vec<_>>(), [race(false, true)]);
}

#[test]
fn atomics_do_not_race_with_each_other() {
    let start = "setp.eq.u32 %q0, %t, 0;\nmov.u32 %r0, 0;\n@%q0 st.shared.u32 [%s], %r0; // A\n";
    clean(&format!("{start}bar.sync 0;\nred.shared.add.u32 [%s], 1;\nbar.sync 0;\nld.shared.u32 %r1, [%s];"), 64);
    found(&format!("{start}red.shared.add.u32 [%s], 1; // B"), 32, race(true, true));
}

#[test]
fn fences_make_flags_of_volatile_words() {
    let hand_over = |fence: &str| {
        format!(
            "setp.eq.u32 %q0, %t, 0;\nmov.u32 %r0, 0;\n@%q0 st.shared.u32 [%s], %r0;\nbar.sync 0;\n\
             setp.eq.u32 %q1, %t, 32;\n@%q0 bra GIVE;\n@%q1 bra TAKE;\nbra END;\n\
             GIVE:\nmov.u32 %r1, 7;\nst.shared.u32 [%s+4], %r1; // A\n{fence}\nst.volatile.shared.u32 [%s], %r1;\nbra END;\n\
             TAKE:\nld.volatile.shared.u32 %r2, [%s];\nsetp.eq.u32 %q2, %r2, 0;\n@%q2 bra TAKE;\n{fence}\n\
             ld.shared.u32 %r3, [%s+4]; // B\nEND:"
        )
    };
    clean(&hand_over("membar.cta;"), 64);
    let mistakes = watched(&kernel(&hand_over("")), 64, RACES);
    assert_eq!(mistakes.len(), 2, "the flag and what it guards: {mistakes:#?}");
}

#[test]
fn an_mbarrier_orders_who_arrives_and_who_waits() {
    let hand_over = |wait: &str| {
        format!(
            "mov.u32 %r0, gate; setp.eq.u32 %q0, %t, 0;\n@%q0 mbarrier.init.shared.b64 [%r0], 64;\nbar.sync 0;\n\
             st.shared.u32 [%a], %t;\nmbarrier.arrive.shared.b64 %x0, [%r0];\n{wait}\nld.shared.u32 %r1, [%n];"
        )
    };
    clean(&hand_over("WAIT:\nmbarrier.try_wait.shared.b64 %q1, [%r0], %x0;\n@!%q1 bra WAIT;"), 64);
    assert_eq!(watched(&kernel(&hand_over("")), 64, RACES).len(), 1);
}

#[test]
fn asynchronous_copies_write() {
    let copy = |behind: &str| {
        format!(
            "mad.wide.u32 %x0, %t, 4, %p;\ncp.async.ca.shared.global [%a], [%x0], 4;\ncp.async.wait_all;\n{behind}\n\
             ld.shared.u32 %r0, [%n];"
        )
    };
    clean(&copy("bar.sync 0;"), 64);
    assert_eq!(watched(&kernel(&copy("")), 64, RACES).len(), 1);
}

#[test]
fn shared_memory_is_read_that_nobody_wrote() {
    let mistake = found(
        "setp.gt.u32 %q0, %t, 0;\n@%q0 st.shared.u32 [%a], %t;\nbar.sync 0;\nld.shared.u32 %r0, [%a]; // A",
        64,
        MistakeKind::UnwrittenShared,
    );
    assert_eq!((mistake.thread, mistake.address, mistake.bytes), ([0; 3], 0, 4));
    clean("st.shared.u32 [%a], %t;\nbar.sync 0;\nld.shared.u32 %r0, [%a];", 64);
}

#[test]
fn global_memory_is_read_that_nobody_wrote() {
    let text = kernel(
        "mad.wide.u32 %x0, %t, 4, %p;\nld.global.u32 %r0, [%x0];\nst.global.u32 [%x0], %t;\nld.global.u32 %r1, [%x0];",
    );
    let image = image(&text);
    let mut device = Device::watched(INIT);
    let out = device.put(&[0u32; 1024]);
    // Words 8 to 11 have no writer.
    let (fresh, left) = (out + 32..out + 48, out + 40..out + 48);
    device.unwritten = Some(Unwritten::new([fresh]));
    device.run(&image, "k", 1, 10, &[out]).unwrap();
    assert_eq!(device.unwritten.as_ref().unwrap().left(), [left]);
    let mistakes = device.mistakes.lock().unwrap();
    assert_eq!(mistakes.len(), 1, "{mistakes:#?}");
    let Mistake { kind, thread, address, bytes, spot, .. } = &mistakes[0];
    assert_eq!((*kind, *thread, *address, *bytes), (MistakeKind::UnwrittenGlobal, [8, 0, 0], out + 32, 4));
    assert_eq!(spot.ptx, "ld.global.u32 %r0, [%x0];");
}

#[test]
fn a_block_waits_at_two_places() {
    let branches = |barrier: &str| {
        format!(
            "setp.lt.u32 %q0, %t, 32;\n@%q0 bra OTHER;\n{barrier} // A\nbra END;\nOTHER:\nadd.u32 %r0, %t, 1;\n{barrier} // B\nEND:"
        )
    };
    found(&branches("bar.sync 0;"), 64, MistakeKind::DivergentBarrier);
    // The ISA lets threads come to `barrier` from anywhere.
    clean(&branches("barrier.sync 0;"), 64);
    // Who is gone is not waited for.
    clean("setp.lt.u32 %q0, %t, 40;\n@!%q0 exit;\nbar.sync 0;", 64);
}

#[test]
fn masks_name_those_that_come() {
    found("bar.warp.sync 0xfffffffe; // A", 32, MistakeKind::NotInMask);
    // Each half waits for the other in another mask, for ever.
    let text = kernel(
        "setp.lt.u32 %q0, %t, 16;\n@%q0 bra LOW;\nshfl.sync.idx.b32 %r0, %t, 0, 31, 0xffffffff; // A\nbra END;\nLOW:\n\
         shfl.sync.idx.b32 %r0, %t, 0, 31, 0x7fffffff; // B\nEND:",
    );
    let mut device = Device::watched(RACES);
    let trap = device::trap(device.run(&image(&text), "k", 1, 31, &[0]));
    assert_eq!((trap.kind, trap.waiting), (TrapKind::Deadlock, vec![line_of(&text, "// A"), line_of(&text, "// B")]));
    let mistake = device.mistakes.lock().unwrap()[0].clone();
    let (other, spot) = mistake.other.unwrap();
    assert_eq!((mistake.kind, mistake.thread, other), (MistakeKind::UnequalMasks, [0; 3], [16, 0, 0]));
    assert_eq!((mistake.spot.line, spot.line), (line_of(&text, "// B"), line_of(&text, "// A")));
    clean(
        "setp.lt.u32 %q0, %t, 16;\n@%q0 bra LOW;\nbra END;\nLOW:\nbar.warp.sync 0xffff;\nEND:\nbar.warp.sync 0xffffffff;",
        32,
    );
}

#[test]
fn the_first_block_that_goes_wrong_is_reported() {
    // Every block from 7 on writes outside; those before take longer.
    let text = kernel(
        "mov.u32 %r0, %ctaid.x;\nsetp.lt.u32 %q0, %r0, 7;\nmov.u32 %r1, 0;\n@!%q0 bra WRITE;\n\
         LOOP:\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %q1, %r1, 100000;\n@%q1 bra LOOP;\nbra END;\n\
         WRITE:\nst.global.u32 [%p+4096], %r1; // A\nEND:",
    );
    let image = image(&text);
    for _ in 0..20 {
        let mut device = Device::new();
        let out = device.put(&[0u32; 1024]);
        let stopped = device.launch(&image, "k", [40, 1, 1], [2, 1, 1], &words(&[out]), |l| l.threads = 4);
        let trap = device::trap(stopped);
        assert_eq!((trap.kind, trap.block, trap.thread), (TrapKind::IllegalAddress, [7, 0, 0], [0; 3]));
        assert_eq!(trap.spot.line, line_of(&text, "// A"));
        let touched = trap.touched.unwrap();
        assert_eq!((touched.writes, touched.bytes, touched.space), (true, 4, None));
    }
}

#[test]
fn a_vector_of_atomics_is_aligned_as_a_whole() {
    let text = ".version 8.1\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p) {\n\
        .reg .u64 %p; .reg .f32 %f; ld.param.u64 %p, [p]; mov.f32 %f, 0f3F800000;\n\
        red.global.add.v4.f32 [%p], {%f, %f, %f, %f};\nret; }";
    let image = image(text);
    let mut device = Device::new();
    let out = device.put(&[0f32; 16]);
    device.run(&image, "k", 1, 1, &[out + 16]).unwrap();
    assert_eq!(device.get::<f32>(out, 8), [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]);
    let trap = device::trap(device.run(&image, "k", 1, 1, &[out + 4]));
    assert_eq!((trap.kind, trap.address), (TrapKind::MisalignedAddress, out + 4));
}

#[test]
fn a_thread_that_breaks_its_own_stack_harms_nobody_else() {
    // A recursive function with 16 bytes of its own, of which a thread overwrites what lies before: its frame's link.
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n\
        .func (.reg .u32 %o) f(.reg .u32 %i, .reg .u64 %v) {\n.local .align 8 .b64 own[2];\n.reg .u64 %l<3>; .reg .pred %q; .reg .u32 %j, %k;\n\
        mov.u64 %l0, own; add.u32 %j, %i, 1; setp.ge.u32 %q, %i, 3; mov.u32 %o, %i; @%q bra BREAK;\n\
        call (%k), f, (%j, %v); add.u32 %o, %k, %i; ret;\nBREAK:\n\
        st.local.u64 [%l0+-16], %v; st.local.u64 [%l0+-8], %v; ret;\n}\n\
        .visible .entry k(.param .u64 p) {\n.reg .u64 %p; .reg .u32 %r; ld.param.u64 %p, [p]; call (%r), f, (0, %p); ret; }\n\
        .visible .entry restore(.param .u64 p) {\n.reg .u64 %p; .reg .u32 %r; ld.param.u64 %p, [p]; stackrestore.u64 %p; call (%r), f, (4, 0); ret; }\n";
    let image = image(text);
    for value in [u64::MAX, 1 << 40, 0x7fff_ffff_ffff_ff00, 4096, (-64i64) as u64] {
        for name in ["k", "restore"] {
            // It stops, or it ends with numbers that mean nothing; the process goes on.
            if let Err(error) =
                Device::new().launch(&image, name, [1; 3], [2, 1, 1], &words(&[value]), |l| l.stack = 1024)
            {
                assert!(error.to_string().contains("stack overflow"), "{error}");
            }
        }
    }
}

/// A step of a random program: who does what.
#[derive(Clone, Copy, Debug)]
enum Step {
    Read(u32, u32),
    Write(u32, u32),
    /// These lanes meet.
    Warp(u32),
    Block,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..4u32, 0..3u32).prop_map(|(thread, word)| Step::Read(thread, word)),
        4 => (0..4u32, 0..3u32).prop_map(|(thread, word)| Step::Write(thread, word)),
        2 => (1..16u32).prop_map(Step::Warp),
        1 => Just(Step::Block),
    ];
    prop::collection::vec(step, 1..14)
}

/// Whether two steps touch the same word from different threads, one writes, and no chain of steps leads from one to the other.
fn races(steps: &[Step]) -> bool {
    let who = |step: &Step| match step {
        Step::Read(thread, _) | Step::Write(thread, _) => 1 << thread,
        Step::Warp(mask) => *mask,
        Step::Block => 15,
    };
    let mut before = vec![vec![false; steps.len()]; steps.len()];
    for to in 0..steps.len() {
        for from in 0..to {
            if who(&steps[from]) & who(&steps[to]) != 0 {
                before[from][to] = true;
                before[..from].iter_mut().for_each(|first| first[to] |= first[from]);
            }
        }
    }
    let access = |step: &Step| match *step {
        Step::Read(thread, word) => Some((thread, word, false)),
        Step::Write(thread, word) => Some((thread, word, true)),
        _ => None,
    };
    (0..steps.len()).any(|to| {
        (0..to).any(|from| {
            let (Some((a, x, writes)), Some((b, y, wrote))) = (access(&steps[to]), access(&steps[from])) else {
                return false;
            };
            a != b && x == y && (writes || wrote) && !before[from][to]
        })
    })
}

/// Whether no word has more readers than are kept.
fn has_few_readers(steps: &[Step]) -> bool {
    (0..3).all(|word| {
        let reads =
            |thread: &u32| steps.iter().any(|step| matches!(step, Step::Read(t, w) if t == thread && *w == word));
        (0..4u32).filter(reads).count() <= 2
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn races_are_those_of_the_definition(steps in steps()) {
        let mut body = String::from("mov.u32 %r7, 0;\nst.shared.u32 [%a], %t;\nbar.sync 0;\n");
        for (number, step) in steps.iter().enumerate() {
            match step {
                Step::Read(thread, word) => {
                    writeln!(body, "setp.eq.u32 %q0, %t, {thread};\n@%q0 ld.shared.u32 %r0, [%s+{}];", word * 4).unwrap();
                }
                Step::Write(thread, word) => {
                    writeln!(body, "setp.eq.u32 %q0, %t, {thread};\nmov.u32 %r6, {};\n@%q0 st.shared.u32 [%s+{}], %r6;", 1000 + number, word * 4).unwrap();
                }
                Step::Warp(mask) => {
                    writeln!(
                        body,
                        "mov.u32 %r1, {mask}; shr.u32 %r2, %r1, %t; and.b32 %r2, %r2, 1; setp.eq.u32 %q1, %r2, 1;\n@%q1 bar.warp.sync {mask};"
                    )
                    .unwrap();
                }
                Step::Block => body.push_str("bar.sync 0;\n"),
            }
        }
        let mistakes = watched(&kernel(&body), 4, RACES);
        let is_race = races(&steps);
        if has_few_readers(&steps) {
            prop_assert_eq!(!mistakes.is_empty(), is_race, "{:#?}", mistakes);
        } else {
            prop_assert!(mistakes.is_empty() || is_race, "{:#?}", mistakes);
        }
    }
}
