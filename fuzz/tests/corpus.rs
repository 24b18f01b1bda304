//! Every input of the corpus, as it is and mutated. What a fuzzer found stays in the corpus and cannot come back.
//! `FTEST_FUZZ_SECONDS=60 cargo test -p fuzz --test corpus -- search --nocapture` looks for longer.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fuzz::{TARGETS, Target};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

fn corpus(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let mut files: Vec<PathBuf> = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 3, "{} holds too little", directory.display());
    files.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// What can happen to an input; positions are parts of its length.
#[derive(Clone, Debug)]
enum Mutation {
    Set(f64, u8),
    Insert(f64, Vec<u8>),
    Remove(f64, usize),
    Repeat(f64, usize, usize),
    /// A piece of another input.
    Splice(f64, usize, f64, usize),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let words = prop::sample::select(
        vec![
            "\0",
            "\u{1b}[",
            "\u{1b}]",
            "]]>",
            "<![CDATA[",
            "&#x0;",
            "\u{fffe}",
            "${{",
            "}}",
            "[",
            "]",
            "{",
            "}",
            ": ",
            "- ",
            "\n",
            "\t",
            "~",
            "*a",
            "&a ",
            "<<: ",
            "!!binary ",
            "|",
            ">-",
            "'",
            "\"",
            "\\",
            "1e999",
            "-0",
            "99999999999999999999",
            "NaN",
            "null",
            "true",
            "0x",
            "$..",
            "[*]",
            "[?(@.a)]",
            "|pluck('a')",
            "range(9)",
            "1h",
            "5KiB",
            "\u{10ffff}",
        ]
        .into_iter()
        .filter(|word| !word.is_empty())
        .map(str::as_bytes)
        .map(<[u8]>::to_vec)
        .collect::<Vec<_>>(),
    );
    prop_oneof![
        (0.0..1.0, any::<u8>()).prop_map(|(at, byte)| Mutation::Set(at, byte)),
        (0.0..=1.0, prop_oneof![words, prop::collection::vec(any::<u8>(), 1..9)])
            .prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
        (0.0..1.0, 1..64_usize).prop_map(|(at, count)| Mutation::Remove(at, count)),
        (0.0..1.0, 1..64_usize, 1..5_usize).prop_map(|(at, count, times)| Mutation::Repeat(at, count, times)),
        (0.0..=1.0, any::<usize>(), 0.0..1.0, 1..256_usize)
            .prop_map(|(at, other, from, count)| Mutation::Splice(at, other, from, count)),
    ]
}

fn apply(data: &mut Vec<u8>, mutation: &Mutation, others: &[(PathBuf, Vec<u8>)]) {
    let place = |at: f64, length: usize| (at * length as f64) as usize;
    match mutation {
        Mutation::Set(at, byte) => {
            let at = place(*at, data.len());
            if let Some(old) = data.get_mut(at) {
                *old = *byte;
            }
        }
        Mutation::Insert(at, bytes) => {
            let at = place(*at, data.len());
            data.splice(at..at, bytes.iter().copied());
        }
        Mutation::Remove(at, count) => {
            let at = place(*at, data.len());
            data.drain(at..(at + count).min(data.len()));
        }
        Mutation::Repeat(at, count, times) => {
            let at = place(*at, data.len());
            let piece = data[at..(at + count).min(data.len())].repeat(*times);
            data.splice(at..at, piece);
        }
        Mutation::Splice(at, other, from, count) => {
            let other = &others[other % others.len()].1;
            let (at, from) = (place(*at, data.len()), place(*from, other.len()));
            data.splice(at..at, other[from..(from + count).min(other.len())].iter().copied());
        }
    }
}

/// Mutated inputs, so many or for so long; the smallest that breaks a promise is reported.
fn search(name: &str, target: Target, count: u32, until: Instant) {
    let files = corpus(name);
    let input =
        (any::<prop::sample::Index>(), prop::collection::vec(mutation(), 1..8)).prop_map(|(index, mutations)| {
            let mut data = index.get(&files).1.clone();
            mutations.iter().for_each(|mutation| apply(&mut data, mutation, &files));
            data
        });
    let mut config = Config::with_cases(count);
    config.failure_persistence = None;
    let mut tried = 0;
    loop {
        let result = TestRunner::new(config.clone()).run(&input, |data| {
            target(&data);
            Ok(())
        });
        if let Err(error) = result {
            panic!("{name}: add what breaks it to fuzz/corpus/{name}: {error}");
        }
        tried += count;
        if Instant::now() >= until {
            println!("{name}: {tried} inputs");
            return;
        }
    }
}

#[test]
fn replay() {
    for (name, target) in TARGETS {
        for (path, data) in corpus(name) {
            println!("{}", path.display());
            target(&data);
        }
    }
}

#[test]
fn search_near_the_corpus() {
    let seconds = std::env::var("FTEST_FUZZ_SECONDS").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(0);
    let only = std::env::var("FTEST_FUZZ_TARGET").ok();
    for (name, target) in TARGETS.iter().filter(|(name, _)| only.as_deref().is_none_or(|only| only == *name)) {
        search(name, *target, 100, Instant::now() + Duration::from_secs(seconds));
    }
}

#[test]
fn empty_input_and_noise_are_borne() {
    for (_, target) in TARGETS {
        for data in [&b""[..], b"\0", b"\xff\xff\xff\xff\xff\xff\xff\xff", b"\n\n", b"{}", b"[]", b"null"] {
            target(data);
        }
    }
}
