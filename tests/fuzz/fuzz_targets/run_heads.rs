//! Heads of runs and of replies, from any bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| iop_tests::fuzz::run_heads(data));
