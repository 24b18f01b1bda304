//! `cargo fuzz run --sanitizer none --features libfuzzer fuzz-xml fuzz/corpus/xml`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::xml(data));
