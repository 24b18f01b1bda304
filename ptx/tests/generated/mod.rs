//! Random programs, executed by compiled code and by the interpreter, bit for bit (every launch of [`Device`] is compared).
//! `PROPTEST_CASES=20000 cargo test -p ptx --test integration generated::` runs others, and more of them. Those of a plain run
//! find what once gave wrong numbers silently, when it is put back:
//! - a branch of four lanes whose condition was taken to be false if its block was compiled before the one that writes it (`Decide`
//!   with a branch between, in a block behind a `Leave` or in an `If`);
//! - a pair with a half that nobody writes, taken to be the same in all lanes (`pairs` of a word that is never written);
//! - a register that nobody writes, with the value of the block that ran there before (a predicate that only one block's shuffle
//!   writes, and that another block reads behind a vote).

mod program;

use std::collections::BTreeMap;

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use crate::device::{Device, image, words};
use program::{Condition, INPUTS, Kernel, OWN, RESULTS, Step, steps};

/// Programs of a plain run, the same in each.
const CASES: u32 = 80;

/// Threads of a block: whole warps, a part of one, and rows that four lanes at once do not divide.
const SIZES: [u32; 3] = [64, 100, 33];

fn run(steps: &[Step]) -> Kernel {
    let kernel = Kernel::new(steps);
    let image = image(kernel.text());
    let input: Vec<u32> = (0..128.max(INPUTS) as u32).map(|at| at.wrapping_mul(0x9e37_79b9) >> (at % 29)).collect();
    for threads in SIZES {
        let mut device = Device::new();
        let count = (threads * 2) as usize;
        let [input, own, out] = [device.put(&input), device.alloc(count * OWN * 4), device.alloc(count * RESULTS * 4)];
        // One block after the other in the same memory, so that a value of the first can be met in the second.
        let params = words(&[input, own, out]);
        device
            .launch(&image, "k", [2, 1, 1], [threads, 1, 1], &params, |launch| launch.threads = 1)
            .unwrap_or_else(|error| panic!("{error}"));
    }
    kernel
}

#[test]
fn compiled_code_does_what_the_interpreter_does() {
    let more = std::env::var_os("PROPTEST_CASES").is_some();
    let config =
        Config { failure_persistence: None, ..if more { Config::default() } else { Config::with_cases(CASES) } };
    let mut runner = match more {
        true => TestRunner::new(config),
        false => TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha)),
    };
    let contents = std::cell::RefCell::new(BTreeMap::<&str, u32>::new());
    let outcome = runner.run(&steps(), |steps| {
        let outcome = std::panic::catch_unwind(|| run(&steps));
        let kernel = outcome.map_err(|why| {
            let why = why.downcast_ref::<String>().map_or("it panicked", String::as_str);
            TestCaseError::fail(format!("{why}\n{}", Kernel::new(&steps).text()))
        })?;
        for (kind, count) in &kernel.contents {
            *contents.borrow_mut().entry(kind).or_default() += count;
        }
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    // What a generator does not write is not tested.
    let contents = contents.into_inner();
    println!("statements of all programs: {contents:?}");
    for kind in [
        "words",
        "pairs",
        "floats",
        "predicates",
        "memory",
        "shuffles",
        "votes",
        "shared memory",
        "branches of lanes",
        "branches of blocks",
        "loops",
        "loops of lanes",
        "late branches",
        "ways out",
        "breaks",
    ] {
        assert!(contents.get(kind).is_some_and(|count| *count >= 10), "too few {kind}: {contents:?}");
    }
}

/// Found with `PROPTEST_CASES=1500`. What a register has that no instruction wrote is undefined in PTX, and zero here; but the only
/// instruction that writes `%r1` counts up by lane, and four lanes at once took it to do so from the beginning.
#[test]
fn a_register_that_is_read_before_it_is_written_is_zero_in_all_lanes() {
    let line = |text: &str| Step::Line("words", text.to_owned());
    run(&[
        Step::If {
            condition: Condition::Own(0, true),
            then: vec![line("add.u32 %r3, %r0, %r0;")],
            other: vec![line("mov.u32 %r1, %tid;")],
        },
        line("add.u32 %r2, %r0, %r0;"),
        line("add.rn.f32 %f0, %f0, %f0;"),
    ]);
}
