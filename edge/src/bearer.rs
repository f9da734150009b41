//! Keys as requests show them, and the one way in which a key is compared. Whose keys count is decided where they are
//! asked for.

use http::{HeaderMap, header};
use iop_config::Secret;
use subtle::ConstantTimeEq;

/// What stands behind `Authorization: Bearer`.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, key) = headers.get(header::AUTHORIZATION)?.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| key.trim_ascii())
}

/// Whether this key is shown. Constant time, so that timing tells nothing about the key but its length.
pub(crate) fn is_shown(key: &Secret, shown: &[u8]) -> bool {
    key.expose().as_bytes().ct_eq(shown).into()
}
