//! Text that is never shown: not by Debug, not in an issue, not in a difference. It is not wiped from memory.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Bytes of a key or of a header's value: what servers commonly accept in one header line.
const MAX_SECRET_BYTES: usize = 4096;

/// A client's key or a header's value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Secret(Arc<str>);

/// The text cannot travel in a header as a key. It is not part of the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not usable as a secret, expected {}", Secret::EXPECTED)]
pub struct SecretError;

impl Secret {
    /// What a key must look like.
    pub const EXPECTED: &'static str = "1 to 4096 visible ASCII characters without spaces";

    /// The text itself, for comparing it or sending it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// A header's value, in which spaces may stand between words.
    pub(crate) fn header_value(text: &str) -> Option<Self> {
        let visible = |b: u8| b.is_ascii_graphic() || b == b' ';
        let usable = text.len() <= MAX_SECRET_BYTES && text.trim() == text && text.bytes().all(visible);
        usable.then(|| Self(text.into()))
    }
}

impl FromStr for Secret {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<Self, SecretError> {
        let usable =
            (1..=MAX_SECRET_BYTES).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
        if usable { Ok(Self(text.into())) } else { Err(SecretError) }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}
