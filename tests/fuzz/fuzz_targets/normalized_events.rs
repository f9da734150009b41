//! Normalized events as clients see them, from any bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| iop_tests::fuzz::normalized_events(data));
