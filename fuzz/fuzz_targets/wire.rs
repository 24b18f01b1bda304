//! `cargo fuzz run --sanitizer none --features libfuzzer fuzz-wire fuzz/corpus/wire`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::wire(data));
