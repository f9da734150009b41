//! A secret of the edge that survives restarts. What it is used for is not this crate's concern.

use crate::random;
use crate::store::{self, StoreError};
use std::fs;
use std::io;
use std::path::Path;
use zeroize::Zeroizing;

/// File in the folder of certificates.
const FILE: &str = "edge.secret";

/// Why there is no secret. Always local.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The file is there and is not a secret that was made here.
    #[error("{path}: not 64 hexadecimal digits: remove the file, and a new one is made")]
    Malformed {
        /// The file.
        path: std::path::PathBuf,
    },
    /// The file cannot be read.
    #[error("{path}: cannot be read: {reason}")]
    Unreadable {
        /// The file.
        path: std::path::PathBuf,
        /// What the system said.
        reason: io::Error,
    },
    /// The file cannot be made.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The system has no random numbers.
    #[error("the system gave no random numbers")]
    Random,
}

/// The 32 secret bytes kept in `dir`, made at the first call.
pub fn edge_secret(dir: &Path) -> Result<[u8; 32], SecretError> {
    let path = dir.join(FILE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => Zeroizing::new(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let secret = random::bytes::<32>().map_err(|_failed| SecretError::Random)?;
            let text = Zeroizing::new(random::hex(&secret) + "\n");
            store::replace(&path, &text)?;
            text
        }
        Err(reason) => return Err(SecretError::Unreadable { path, reason }),
    };
    parse(text.trim()).ok_or(SecretError::Malformed { path })
}

fn parse(text: &str) -> Option<[u8; 32]> {
    let mut secret = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (byte, at) in secret.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_is_made_once_and_kept() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let made = edge_secret(dir.path()).expect("made");
        assert_eq!(edge_secret(dir.path()).expect("read"), made);
        let other = tempfile::tempdir().expect("a temporary folder");
        assert_ne!(edge_secret(other.path()).expect("made"), made);
    }

    #[test]
    fn a_file_that_is_no_secret_is_refused_and_left_alone() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        for text in ["", "abc", &"g".repeat(64), &"é".repeat(32)] {
            fs::write(dir.path().join(FILE), text).expect("written");
            assert!(matches!(edge_secret(dir.path()), Err(SecretError::Malformed { .. })), "{text:?}");
            assert_eq!(fs::read_to_string(dir.path().join(FILE)).expect("still there"), text);
        }
    }
}
