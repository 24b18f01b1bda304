//! `cargo fuzz run --sanitizer none --features libfuzzer fuzz-report fuzz/corpus/report`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::report(data));
