//! One written value as a Rust type. Strict on purpose: a number in quotes is a text, a text that looks like a number
//! stays the text it is, and there is one spelling of a number.

use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;
use std::str::FromStr;

use crate::endpoint::{Endpoint, EndpointPattern};
use crate::host::Address;
use crate::names::{EnvName, KeyName, ModelId, NodeId, Origin, Owner, ProviderId, ServerName};
use crate::schema::Takes;
use crate::secret::Secret;
use crate::tree::Scalar;

/// A type that a single value can be read as. None: the value is not what the key takes.
pub(crate) trait FromScalar: Sized {
    fn from_scalar(scalar: &Scalar<'_>, takes: Takes) -> Option<Self>;
}

/// A type that carries its whole rule in `FromStr`.
pub(crate) trait Text: FromStr {}

impl<T: Text> FromScalar for T {
    fn from_scalar(scalar: &Scalar<'_>, _: Takes) -> Option<Self> {
        if scalar.is_null() { None } else { scalar.text.parse().ok() }
    }
}

impl Text for Address {}
impl Text for Endpoint {}
impl Text for EndpointPattern {}
impl Text for EnvName {}
impl Text for KeyName {}
impl Text for ModelId {}
impl Text for NodeId {}
impl Text for Origin {}
impl Text for Owner {}
impl Text for ProviderId {}
impl Text for Secret {}
impl Text for ServerName {}
impl Text for SocketAddr {}

impl FromScalar for PathBuf {
    fn from_scalar(scalar: &Scalar<'_>, _: Takes) -> Option<Self> {
        let usable = !scalar.is_null() && !scalar.text.trim().is_empty() && !scalar.text.contains('\0');
        usable.then(|| Self::from(&*scalar.text))
    }
}

impl FromScalar for bool {
    fn from_scalar(scalar: &Scalar<'_>, _: Takes) -> Option<Self> {
        match &*scalar.text {
            "true" | "True" | "TRUE" if scalar.plain => Some(true),
            "false" | "False" | "FALSE" if scalar.plain => Some(false),
            _ => None,
        }
    }
}

impl FromScalar for i32 {
    fn from_scalar(scalar: &Scalar<'_>, takes: Takes) -> Option<Self> {
        integer(scalar, takes)?.try_into().ok()
    }
}

impl FromScalar for u32 {
    fn from_scalar(scalar: &Scalar<'_>, takes: Takes) -> Option<Self> {
        integer(scalar, takes)?.try_into().ok()
    }
}

impl FromScalar for u64 {
    fn from_scalar(scalar: &Scalar<'_>, takes: Takes) -> Option<Self> {
        integer(scalar, takes)?.try_into().ok()
    }
}

impl FromScalar for NonZeroU32 {
    fn from_scalar(scalar: &Scalar<'_>, takes: Takes) -> Option<Self> {
        Self::new(u32::from_scalar(scalar, takes)?)
    }
}

impl FromScalar for NonZeroU64 {
    fn from_scalar(scalar: &Scalar<'_>, takes: Takes) -> Option<Self> {
        Self::new(u64::from_scalar(scalar, takes)?)
    }
}

/// The number within the bounds of its key. No sign but `-`, no leading zeros: those mean octal to some readers.
fn integer(scalar: &Scalar<'_>, takes: Takes) -> Option<i64> {
    let Takes::Integer(min, max) = takes else { return None };
    let digits = scalar.text.strip_prefix('-').unwrap_or(&scalar.text);
    let one_spelling = digits == "0" || !digits.starts_with('0');
    let decimal = digits.bytes().all(|b| b.is_ascii_digit());
    if !(scalar.plain && one_spelling && decimal) {
        return None;
    }
    let number: i64 = scalar.text.parse().ok()?;
    (min..=max).contains(&number).then_some(number)
}
