//! `cargo fuzz run --sanitizer none --features libfuzzer fuzz-log fuzz/corpus/log`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::log(data));
