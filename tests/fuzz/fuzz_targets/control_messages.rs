//! Messages of the control stream, from any bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| iop_tests::fuzz::control_messages(data));
