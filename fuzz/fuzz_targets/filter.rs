//! `cargo fuzz run --sanitizer none --features libfuzzer fuzz-filter fuzz/corpus/filter`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::filter(data));
