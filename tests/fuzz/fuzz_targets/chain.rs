//! Answers to a node's request for a certificate, from any bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| iop_tests::fuzz::chain(data));
