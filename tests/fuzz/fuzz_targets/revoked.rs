//! Lists of revoked certificates, from any bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| iop_tests::fuzz::revoked(data));
