//! Threads that meet: shuffles, votes, matches and reductions by the ISA's pseudo-code, under divergence, with exits and in loops;
//! barriers with counts; threads that wait for each other.

use ptx::TrapKind;

use crate::device::{self, Device, image, trap};
use crate::forms::{self, Random};

const HEADER: &str = forms::HEADER;

/// Runs one warp in which each thread has two words of input and gives two of output.
fn warp(body: &str, input: &[[u32; 2]; 32]) -> Vec<[u32; 2]> {
    let text = format!(
        "{HEADER}.visible .entry k(.param .u64 p0, .param .u64 p1)\n{{\n.reg .b64 %in, %out, %at;\n.reg .b32 %t, %a, %b, %c, %d, %e, %m;\n\
         .reg .pred %p, %q, %r;\nld.param.u64 %in, [p0];\nld.param.u64 %out, [p1];\nmov.u32 %t, %tid.x;\nmul.wide.u32 %at, %t, 8;\n\
         add.u64 %in, %in, %at;\nadd.u64 %out, %out, %at;\nld.global.v2.u32 {{%a, %b}}, [%in];\nmov.u32 %d, -1;\nmov.u32 %e, 0;\n{body}\n\
         st.global.v2.u32 [%out], {{%d, %e}};\nret;\n}}\n"
    );
    let image = image(&text);
    let mut device = Device::new();
    let (input, output) = (device.put(input), device.put(&[[0u32; 2]; 32]));
    device.run(&image, "k", 1, 32, &[input, output]).unwrap_or_else(|error| panic!("{body}: {error}"));
    device.get(output, 32)
}

fn random(seed: u64) -> [[u32; 2]; 32] {
    let mut random = Random(seed);
    std::array::from_fn(|_| [random.next() as u32, random.next() as u32 % 7])
}

#[test]
fn shuffles_follow_the_pseudo_code() {
    for (mode, name) in ["up", "down", "bfly", "idx"].into_iter().enumerate() {
        for segment in [0u32, 0x10, 0x18, 0x1c] {
            for by in [0u32, 1, 3, 8, 17] {
                let clamp = if name == "up" { 0 } else { 31 };
                let c = segment << 8 | clamp;
                let input = random(u64::from(by) * 99 + u64::from(segment) + 1);
                let body = format!("shfl.sync.{name}.b32 %d|%p, %a, {by}, {c}, -1;\nselp.u32 %e, 1, 0, %p;");
                let got = warp(&body, &input);
                for lane in 0..32u32 {
                    let max = (lane & segment) | (clamp & !segment);
                    let min = lane & segment;
                    let (j, inside) = match mode {
                        0 => (i64::from(lane) - i64::from(by), i64::from(lane) - i64::from(by) >= i64::from(max)),
                        1 => (i64::from(lane + by), lane + by <= max),
                        2 => (i64::from(lane ^ by), lane ^ by <= max),
                        _ => (i64::from(min | (by & 31 & !segment)), (min | (by & 31 & !segment)) <= max),
                    };
                    let from = if inside { j as usize } else { lane as usize };
                    assert_eq!(got[lane as usize], [input[from][0], u32::from(inside)], "{body} lane {lane}");
                }
            }
        }
    }
}

#[test]
fn votes_matches_and_reductions_over_members() {
    // Odd and even lanes go different ways and meet only each other.
    for (text, model) in [
        (
            "vote.sync.ballot.b32 %d, %p, %m;",
            (|v, _| v.iter().filter(|x| x.1 > 3).fold(0, |b, x| b | 1 << x.2)) as fn(&[(u32, u32, u32)], u32) -> u32,
        ),
        ("vote.sync.any.pred %q, %p, %m;\nselp.u32 %d, 1, 0, %q;", |v, _| u32::from(v.iter().any(|x| x.1 > 3))),
        ("vote.sync.all.pred %q, %p, %m;\nselp.u32 %d, 1, 0, %q;", |v, _| u32::from(v.iter().all(|x| x.1 > 3))),
        ("vote.sync.uni.pred %q, %p, %m;\nselp.u32 %d, 1, 0, %q;", |v, _| {
            u32::from(v.iter().all(|x| x.1 > 3) || !v.iter().any(|x| x.1 > 3))
        }),
        ("match.any.sync.b32 %d, %b, %m;", |v, me| {
            let mine = v.iter().find(|x| x.2 == me).map_or(0, |x| x.1);
            v.iter().filter(|x| x.1 == mine).fold(0, |b, x| b | 1 << x.2)
        }),
        ("redux.sync.add.u32 %d, %a, %m;", |v, _| v.iter().fold(0, |s: u32, x| s.wrapping_add(x.0))),
        ("redux.sync.min.u32 %d, %a, %m;", |v, _| v.iter().map(|x| x.0).min().unwrap()),
        ("redux.sync.max.u32 %d, %a, %m;", |v, _| v.iter().map(|x| x.0).max().unwrap()),
        ("redux.sync.min.s32 %d, %a, %m;", |v, _| v.iter().map(|x| x.0 as i32).min().unwrap() as u32),
        ("redux.sync.max.s32 %d, %a, %m;", |v, _| v.iter().map(|x| x.0 as i32).max().unwrap() as u32),
        ("redux.sync.and.b32 %d, %a, %m;", |v, _| v.iter().fold(u32::MAX, |s, x| s & x.0)),
        ("redux.sync.or.b32 %d, %a, %m;", |v, _| v.iter().fold(0, |s, x| s | x.0)),
        ("redux.sync.xor.b32 %d, %a, %m;", |v, _| v.iter().fold(0, |s, x| s ^ x.0)),
        ("elect.sync %d|%q, %m;", |v, _| v.iter().map(|x| x.2).min().unwrap()),
        ("match.all.sync.b32 %d|%q, %b, %m;", |v, _| {
            if v.iter().all(|x| x.1 == v[0].1) { v.iter().fold(0, |b, x| b | 1 << x.2) } else { 0 }
        }),
    ] {
        for seed in 1..4 {
            let input = random(seed);
            let body = format!(
                "setp.gt.u32 %p, %b, 3;\nand.b32 %c, %t, 1;\nsetp.eq.u32 %r, %c, 0;\nmov.u32 %m, 0xaaaaaaaa;\n@%r mov.u32 %m, 0x55555555;\n\
                 @%r bra EVEN;\nadd.u32 %e, %e, 1;\n{text}\nbra DONE;\nEVEN:\n{text}\nDONE:\n"
            );
            let got = warp(&body, &input);
            for lane in 0..32u32 {
                let members: Vec<(u32, u32, u32)> = (0..32u32)
                    .filter(|l| l & 1 == lane & 1)
                    .map(|l| (input[l as usize][0], input[l as usize][1], l))
                    .collect();
                assert_eq!(got[lane as usize][0], model(&members, lane), "{text} lane {lane}");
            }
        }
    }
}

#[test]
fn float_reductions_order_zeros_and_lose_nan() {
    let mut input = [[0x3f80_0000u32, 0]; 32];
    input[3][0] = 0x8000_0000;
    input[4][0] = 0x7fc0_0000;
    input[9][0] = 0xc000_0000;
    assert_eq!(warp("redux.sync.min.f32 %d, %a, -1;", &input)[0][0], 0xc000_0000);
    assert_eq!(warp("redux.sync.min.abs.f32 %d, %a, -1;", &input)[7][0], 0);
    assert_eq!(warp("redux.sync.max.NaN.f32 %d, %a, -1;", &input)[31][0], 0x7fff_ffff);
}

#[test]
fn lanes_that_are_gone_are_not_waited_for() {
    // Lanes above 20 leave; the others go through a loop of different lengths with a shuffle at its end.
    let body = "setp.gt.u32 %p, %t, 20;\n@%p ret;\nmov.u32 %c, 0;\nLOOP:\nadd.u32 %e, %e, %t;\nadd.u32 %c, %c, 1;\nsetp.lt.u32 %p, %c, %t;\n@%p bra LOOP;\n\
                bar.warp.sync 0x1fffff;\nshfl.sync.idx.b32 %d, %e, 5, 31, 0x1fffff;\nactivemask.b32 %e;";
    let got = warp(body, &[[0; 2]; 32]);
    for (lane, value) in got.iter().enumerate() {
        assert_eq!(*value, if lane > 20 { [0, 0] } else { [25, 0x1f_ffff] }, "{lane}");
    }
}

#[test]
fn a_warp_meets_in_a_loop_that_lanes_leave_one_by_one() {
    // Lane l takes l+1 turns; in each, those that are left are counted by a vote among them.
    let body = "mov.u32 %c, 0;\nmov.u32 %d, 0;\nLOOP:\nsetp.le.u32 %p, %c, %t;\nvote.sync.ballot.b32 %m, %p, -1;\npopc.b32 %b, %m;\n@%p add.u32 %d, %d, %b;\n\
                add.u32 %c, %c, 1;\nsetp.ne.u32 %q, %m, 0;\n@%q bra LOOP;\n";
    for (lane, value) in warp(body, &[[0; 2]; 32]).iter().enumerate() {
        let expected: usize = (0..=lane).map(|turn| 32 - turn).sum();
        assert_eq!(value[0] as usize, expected, "{lane}");
    }
}

#[test]
fn threads_of_one_warp_wait_for_each_other() {
    // A spin lock that each lane takes in turn, with the loser's loop before the winner's release: it needs independent scheduling.
    let text = format!(
        "{HEADER}.visible .entry k(.param .u64 p0)\n{{\n.reg .b64 %p;\n.reg .b32 %o, %v;\n.reg .pred %q;\nld.param.u64 %p, [p0];\nSPIN:\n\
         atom.global.acquire.gpu.cas.b32 %o, [%p], 0, 1;\nsetp.ne.u32 %q, %o, 0;\n@%q bra SPIN;\nld.global.u32 %v, [%p+4];\nadd.u32 %v, %v, 1;\n\
         st.global.u32 [%p+4], %v;\nmembar.gl;\natom.global.exch.b32 %o, [%p], 0;\nret;\n}}\n"
    );
    let image = image(&text);
    let mut device = Device::new();
    let at = device.put(&[0u32; 2]);
    device.run(&image, "k", 10, 96, &[at]).unwrap();
    assert_eq!(device.get::<u32>(at, 2), [0, 960]);
}

#[test]
fn barriers_count_threads() {
    // Two warps produce for two others: arrive on one barrier, wait on it, as the ISA's example of producers and consumers.
    let text = format!(
        "{HEADER}.visible .entry k(.param .u64 p0)\n{{\n.shared .b32 s[64];\n.reg .b64 %p, %at;\n.reg .b32 %t, %v, %a, %x, %y;\n.reg .pred %q, %r;\n\
         ld.param.u64 %p, [p0];\nmov.u32 %t, %tid.x;\nmov.u32 %a, s;\nand.b32 %x, %t, 63;\nshl.b32 %y, %x, 2;\nadd.u32 %a, %a, %y;\n\
         setp.ge.u32 %q, %t, 64;\n@%q bra CONSUMER;\nmul.lo.u32 %v, %t, 3;\nst.shared.u32 [%a], %v;\nbar.arrive 1, 128;\nret;\n\
         CONSUMER:\nbar.sync 1, 128;\nxor.b32 %a, %a, 4;\nld.shared.u32 %v, [%a];\nmul.wide.u32 %at, %x, 4;\nadd.u64 %p, %p, %at;\n\
         st.global.u32 [%p], %v;\nret;\n}}\n"
    );
    let image = image(&text);
    let mut device = Device::new();
    let at = device.put(&[0u32; 64]);
    device.run(&image, "k", 1, 128, &[at]).unwrap();
    assert_eq!(device.get::<u32>(at, 64), (0..64).map(|i| (i ^ 1) * 3).collect::<Vec<u32>>());
}

#[test]
fn barriers_reduce() {
    let text = format!(
        "{HEADER}.visible .entry k(.param .u64 p0)\n{{\n.reg .b64 %p, %at;\n.reg .b32 %t, %v, %w, %x;\n.reg .pred %q, %r, %s;\n\
         ld.param.u64 %p, [p0];\nmov.u32 %t, %tid.x;\nsetp.lt.u32 %q, %t, 37;\nbar.red.popc.u32 %v, 0, %q;\nbarrier.cta.red.and.pred %r, 0, !%q;\n\
         bar.red.or.pred %s, 0, %q;\nselp.u32 %w, 256, 0, %r;\nselp.u32 %x, 512, 0, %s;\nor.b32 %v, %v, %w;\nor.b32 %v, %v, %x;\n\
         mul.wide.u32 %at, %t, 4;\nadd.u64 %p, %p, %at;\nst.global.u32 [%p], %v;\nret;\n}}\n"
    );
    let image = image(&text);
    let mut device = Device::new();
    let at = device.put(&[0u32; 100]);
    device.run(&image, "k", 1, 100, &[at]).unwrap();
    assert_eq!(device.get::<u32>(at, 100), vec![37 | 512; 100]);
}

#[test]
fn a_block_that_can_never_go_on_is_found() {
    let text = format!(
        "{HEADER}.visible .entry k(.param .u64 p0)\n{{\n.reg .b32 %t;\n.reg .pred %q;\nmov.u32 %t, %tid.x;\nsetp.lt.u32 %q, %t, 32;\n\
         @%q bra A;\nbarrier.sync 1;\nret;\nA:\nbarrier.sync 2;\nret;\n}}\n"
    );
    let mut device = Device::new();
    let trap = trap(device.run(&image(&text), "k", 1, 64, &[0]));
    assert_eq!(trap.kind, TrapKind::Deadlock);
    assert_eq!(trap.waiting, [11, 14], "{trap}");
}

#[test]
fn a_launch_that_waits_in_vain_can_be_cancelled() {
    let text = format!(
        "{HEADER}.visible .entry k(.param .u64 p0)\n{{\n.reg .b64 %p;\n.reg .b32 %t;\n.reg .pred %q;\nld.param.u64 %p, [p0];\n\
         L:\nld.volatile.global.u32 %t, [%p];\nsetp.eq.u32 %q, %t, 0;\n@%q bra L;\nret;\n}}\n"
    );
    let image = image(&text);
    let mut device = Device::new();
    let at = device.put(&[0u32]);
    static CANCEL: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
    let params = device::words(&[at]);
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            CANCEL.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        device.launch(&image, "k", [3, 1, 1], [64, 1, 1], &params, |l| l.cancel = Some(&CANCEL))
    });
    assert_eq!(trap(result).kind, TrapKind::Cancelled);
}

#[test]
fn clusters_share_memory_and_meet() {
    let text = format!(
        "{HEADER}.visible .entry k(.param .u64 p0)\n{{\n.shared .align 4 .b32 s[32];\n.reg .b64 %p, %at;\n.reg .b32 %t, %r, %n, %a, %b, %v, %c;\n\
         ld.param.u64 %p, [p0];\nmov.u32 %t, %tid.x;\nmov.u32 %r, %cluster_ctarank;\nmov.u32 %n, %cluster_nctarank;\nmov.u32 %a, s;\n\
         shl.b32 %b, %t, 2;\nadd.u32 %a, %a, %b;\nmad.lo.u32 %v, %r, 1000, %t;\nst.shared.u32 [%a], %v;\n\
         barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\nadd.u32 %r, %r, 1;\nrem.u32 %r, %r, %n;\nmapa.shared::cluster.u32 %b, %a, %r;\n\
         ld.shared::cluster.u32 %v, [%b];\nmov.u32 %c, %ctaid.x;\nmad.lo.u32 %c, %c, 32, %t;\nmul.wide.u32 %at, %c, 4;\nadd.u64 %p, %p, %at;\n\
         st.global.u32 [%p], %v;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\nret;\n}}\n"
    );
    let image = image(&text);
    let mut device = Device::new();
    let at = device.put(&[0u32; 256]);
    let params = device::words(&[at]);
    device.launch(&image, "k", [8, 1, 1], [32, 1, 1], &params, |l| l.cluster = [4, 1, 1]).unwrap();
    let got = device.get::<u32>(at, 256);
    for (index, value) in got.iter().enumerate() {
        let (block, thread) = (index as u32 / 32, index as u32 % 32);
        assert_eq!(*value, (block + 1) % 4 * 1000 + thread, "{index}");
    }
}

#[test]
fn a_block_that_asks_at_a_barrier_lets_the_others_arrive() {
    // One thread asks whether all blocks are here, and its block hears the answer at a barrier.
    let text = format!(
        "{HEADER}.visible .entry k(.param .u64 p0)\n{{\n.shared .b32 s;\n.reg .b64 %a;\n.reg .b32 %t, %v;\n.reg .pred %p, %q;\n\
         ld.param.u64 %a, [p0];\nmov.u32 %t, %tid.x;\nsetp.eq.u32 %p, %t, 0;\n@%p red.release.gpu.global.add.u32 [%a], 1;\nL:\n\
         @%p atom.acquire.gpu.global.add.u32 %v, [%a], 0;\n@%p st.shared.b32 [s], %v;\nbar.sync 0;\nld.shared.b32 %v, [s];\n\
         bar.sync 0;\nsetp.lt.u32 %q, %v, 5;\n@%q bra L;\nret;\n}}\n"
    );
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut device = Device::new();
        let arrived = device.put(&[0u32]);
        let params = arrived.to_le_bytes();
        let ended = device.launch(&image(&text), "k", [5, 1, 1], [64, 1, 1], &params, |l| l.threads = 1);
        sender.send((ended.is_ok(), device.get::<u32>(arrived, 1)[0])).unwrap();
    });
    assert_eq!(receiver.recv_timeout(std::time::Duration::from_secs(60)), Ok((true, 5)), "no block gave way");
}

#[test]
fn halves_of_pairs_are_those_of_their_lanes() {
    let input = random(5);
    let pair =
        ".reg .b64 %w, %x, %y, %z;\ncvt.u64.u32 %w, %a;\ncvt.u64.u32 %x, %b;\nshl.b64 %x, %x, 32;\nor.b64 %y, %w, %x;";
    for (body, model) in [
        ("mov.b64 {_, %d}, %x;\nmov.b64 {%e, _}, %w;", (|a, b| [b, a]) as fn(u32, u32) -> [u32; 2]),
        ("mov.b64 {%d, %e}, %y;", |a, b| [a, b]),
        ("xor.b64 %z, %y, -9223372034707292160;\nmov.b64 {%d, %e}, %z;", |a, b| [a ^ 1 << 31, b ^ 1 << 31]),
        // Nobody writes %m, or only from itself.
        ("mov.b64 %z, {%a, %m};\ncvt.u32.u64 %d, %z;\nmov.b32 %e, %b;", |a, b| [a, b]),
        ("mov.b64 %z, {%m, %b};\nmov.b64 {_, %e}, %z;\nmov.b32 %d, %a;", |a, b| [a, b]),
        ("@%p add.u32 %m, %m, %a;\nmov.b64 %z, {%b, %m};\nmov.b64 {%e, _}, %z;\nmov.b32 %d, %a;", |a, b| [a, b]),
    ] {
        let got = warp(&format!("{pair}\n{body}"), &input);
        assert_eq!(got, input.map(|[a, b]| model(a, b)), "{body}");
    }
}

#[test]
fn what_a_block_has_read_it_overwrites_once() {
    let kernel = |body: &str| {
        image(&format!(
            "{HEADER}.visible .entry k(.param .u64 p0)\n{{\n.reg .b64 %p, %q;\n.reg .b32 %t, %a, %b, %c;\n.reg .pred %m;\n\
             ld.param.u64 %p, [p0];\nmov.u32 %t, %tid.x;\nmov.u32 %c, %ctaid.x;\n{body}\nret;\n}}\n"
        ))
    };
    // A counter of a block; of each block; only one block has it.
    for (body, blocks, wanted) in [
        ("ld.global.u32 %a, [%p];\nadd.u32 %a, %a, 1;\nst.global.u32 [%p], %a;\nst.global.u32 [%p], %a;", 1, [8, 7, 7]),
        (
            "mul.wide.u32 %q, %c, 4;\nadd.u64 %p, %p, %q;\nld.global.u32 %a, [%p];\nadd.u32 %a, %a, 1;\nst.global.u32 [%p], %a;",
            2,
            [8, 8, 7],
        ),
        (
            "setp.ne.u32 %m, %c, 1;\n@%m bra END;\nld.global.u32 %a, [%p];\nadd.u32 %a, %a, 1;\nst.global.u32 [%p], %a;\nEND:",
            3,
            [8, 7, 7],
        ),
        // Each thread sees what it has stored itself.
        (
            "st.global.u32 [%p], %t;\nld.global.u32 %a, [%p];\nsub.u32 %a, %a, %t;\nst.global.u32 [%p+4], %a;",
            1,
            [249, 0, 7],
        ),
        // Not all threads come here.
        ("setp.ge.u32 %m, %t, 5;\n@%m bra END;\nst.global.u32 [%p], %t;\nEND:", 1, [4, 7, 7]),
    ] {
        for threads in [250, 256] {
            let mut device = Device::new();
            let memory = device.put(&[7u32; 3]);
            device
                .run(&kernel(body), "k", blocks, threads, &[memory])
                .unwrap_or_else(|error| panic!("{body}: {error}"));
            let wanted = wanted.map(|word| if word == 249 { threads - 1 } else { word });
            assert_eq!(device.get::<u32>(memory, 3), wanted, "{body}, {threads} threads");
        }
    }
}

/// A merge by one warp without `__syncwarp`, as in CuPy's `partition`: an iteration reads what other lanes wrote in the one before.
#[test]
fn lanes_keep_pace_in_loops_of_exchanges() {
    let body = ".reg .b64 %x, %y;\n.reg .b32 %t, %w, %j, %m, %n, %u, %v;\n.reg .pred %q;\nmov.u32 %t, %tid.x;\nmov.u32 %w, 16;\nW:\nmov.u32 %j, %t;\n\
                setp.ge.u32 %q, %j, 16;\n@%q bra NEXT;\nJ:\nneg.s32 %m, %w;\nand.b32 %m, %j, %m;\nadd.u32 %n, %j, %m;\nmul.wide.u32 %x, %n, 4;\n\
                add.u64 %x, %a, %x;\nmul.wide.u32 %y, %w, 4;\nadd.u64 %y, %x, %y;\nld.global.u32 %u, [%x];\nld.global.u32 %v, [%y];\n\
                setp.le.u32 %q, %u, %v;\n@%q bra SKIP;\nst.global.u32 [%x], %v;\nst.global.u32 [%y], %u;\nSKIP:\nadd.u32 %j, %j, 32;\n\
                setp.lt.u32 %q, %j, 16;\n@%q bra J;\nNEXT:\nshr.u32 %w, %w, 1;\nsetp.ne.u32 %q, %w, 0;\n@%q bra W;\n";
    let text = format!(
        "{HEADER}.visible .entry k(.param .u64 p0)\n{{\n.reg .b64 %a;\nld.param.u64 %a, [p0];\n{body}ret;\n}}\n"
    );
    let mut device = Device::new();
    let rising_and_falling: Vec<u32> = (0..16).map(|i| 2 * i).chain((0..16).map(|i| 31 - 2 * i)).collect();
    let a = device.put(&rising_and_falling);
    device.run(&image(&text), "k", 1, 32, &[a]).unwrap();
    assert_eq!(device.get::<u32>(a, 32), (0..32).collect::<Vec<u32>>());
}

/// The lane that holds the lock waits for nobody who waits for the lock.
#[test]
fn lanes_that_keep_pace_release_a_lock() {
    let body = ".reg .b64 %x;\n.reg .b32 %i, %r, %c, %v;\n.reg .pred %q;\nmov.u32 %i, 0;\nI:\natom.global.cas.b32 %v, [%a+8], 0, 1;\n\
                setp.ne.u32 %q, %v, 0;\n@%q bra I;\nmov.u32 %r, 0;\nR:\nmov.u32 %c, 0;\nC:\nmul.wide.u32 %x, %c, 4;\nadd.u64 %x, %a, %x;\n\
                ld.global.u32 %v, [%x];\nadd.u32 %v, %v, 1;\nst.global.u32 [%x], %v;\nadd.u32 %c, %c, 1;\nsetp.lt.u32 %q, %c, 2;\n@%q bra C;\n\
                add.u32 %r, %r, 1;\nsetp.lt.u32 %q, %r, 2;\n@%q bra R;\natom.global.exch.b32 %v, [%a+8], 0;\nadd.u32 %i, %i, 1;\n\
                setp.lt.u32 %q, %i, 3;\n@%q bra I;\n";
    let text = format!(
        "{HEADER}.visible .entry k(.param .u64 p0)\n{{\n.reg .b64 %a;\nld.param.u64 %a, [p0];\n{body}ret;\n}}\n"
    );
    let mut device = Device::new();
    let a = device.put(&[0u32; 3]);
    device.run(&image(&text), "k", 1, 32, &[a]).unwrap();
    assert_eq!(device.get::<u32>(a, 3), [192, 192, 0]);
}

/// The first warp waits for the second in a loop around a loop of exchanges.
#[test]
fn a_warp_that_waits_lets_another_go_first() {
    let body = ".reg .b64 %x;\n.reg .b32 %t, %c, %v;\n.reg .pred %q;\nmov.u32 %t, %tid.x;\nsetp.ge.u32 %q, %t, 32;\n@%q bra SET;\nR:\nmov.u32 %c, 0;\n\
                C:\nmad.lo.u32 %v, %t, 2, %c;\nmul.wide.u32 %x, %v, 4;\nadd.u64 %x, %a, %x;\nld.global.u32 %v, [%x+4];\nadd.u32 %v, %v, 1;\n\
                st.global.u32 [%x+4], %v;\nadd.u32 %c, %c, 1;\nsetp.lt.u32 %q, %c, 2;\n@%q bra C;\nld.volatile.global.u32 %v, [%a];\n\
                setp.eq.u32 %q, %v, 0;\n@%q bra R;\nbra END;\nSET:\nst.volatile.global.u32 [%a], 1;\nEND:\n";
    let text = format!(
        "{HEADER}.visible .entry k(.param .u64 p0)\n{{\n.reg .b64 %a;\nld.param.u64 %a, [p0];\n{body}ret;\n}}\n"
    );
    let mut device = Device::new();
    let a = device.put(&[0u32; 65]);
    device.run(&image(&text), "k", 1, 64, &[a]).unwrap();
    let found = device.get::<u32>(a, 65);
    assert!(found[0] == 1 && found[1..].iter().all(|count| *count > 0), "{found:?}");
}
