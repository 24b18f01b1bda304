//! `cargo fuzz run --sanitizer none --features libfuzzer fuzz-suite fuzz/corpus/suite`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::suite(data));
