//! Clients' requests as Ollama's, from any bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| iop_tests::fuzz::ollama_requests(data));
