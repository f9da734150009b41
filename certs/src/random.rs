//! Random bytes from the system, for serial numbers and names of temporary files. Keys are made by rcgen.

use rustls::crypto::{GetRandomFailed, ring};

/// `N` unpredictable bytes.
pub(crate) fn bytes<const N: usize>() -> Result<[u8; N], GetRandomFailed> {
    let mut bytes = [0; N];
    ring::default_provider().secure_random.fill(&mut bytes)?;
    Ok(bytes)
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
