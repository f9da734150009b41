//! A certificate's serial number as people write it and as a list holds it: one spelling for one number.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use crate::show::foreign;

/// Longest serial number, in bytes, by RFC 5280.
const MAX_BYTES: usize = 20;

/// A serial number in lower-case hexadecimal, without leading zero bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Serial(String);

/// Why a text is no serial number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a serial number has 1 to {} hexadecimal digits, colons may stand between them, not \"{found}\"", 2 * MAX_BYTES)]
pub struct SerialError {
    /// The text, cut and escaped.
    pub found: String,
}

impl FromStr for Serial {
    type Err = SerialError;

    /// Takes upper case, leading zeros and colons too, as other programs show serial numbers.
    fn from_str(text: &str) -> Result<Self, SerialError> {
        let refused = || SerialError { found: foreign(text) };
        let mut digits = String::new();
        for digit in text.chars().filter(|digit| *digit != ':') {
            let is_leading_zero = digit == '0' && digits.is_empty();
            match digit.to_ascii_lowercase() {
                _ if is_leading_zero => {}
                digit if digit.is_ascii_hexdigit() => digits.push(digit),
                _ => return Err(refused()),
            }
            if digits.len() > 2 * MAX_BYTES {
                return Err(refused());
            }
        }
        // No certificate has the number 0, so nothing is lost with it.
        if digits.is_empty() {
            return Err(refused());
        }
        Ok(Self(if digits.len().is_multiple_of(2) { digits } else { format!("0{digits}") }))
    }
}

/// Its order is that of its text.
impl Borrow<str> for Serial {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_usual_spelling_of_a_number_is_the_same_number() {
        let serial = |text: &str| text.parse::<Serial>().expect("a serial number").to_string();
        for (text, number) in [
            ("4f0a", "4f0a"),
            ("4F0A", "4f0a"),
            ("4f:0a", "4f0a"),
            ("00:4F:0A", "4f0a"),
            ("a", "0a"),
            ("0a", "0a"),
            ("000a", "0a"),
            ("100", "0100"),
            (&"ff".repeat(MAX_BYTES), &"ff".repeat(MAX_BYTES)),
            (&format!("00{}", "ff".repeat(MAX_BYTES)), &"ff".repeat(MAX_BYTES)),
        ] {
            assert_eq!(serial(text), number, "{text:?}");
        }
    }

    #[test]
    fn anything_else_is_refused_and_named() {
        for text in ["", "0", "00:00", ":", "0x4f", "4g", "4f 0a", "-1", "ä", &"ff".repeat(MAX_BYTES + 1)] {
            let error = text.parse::<Serial>().expect_err(text);
            assert_eq!(error, SerialError { found: foreign(text) });
        }
    }
}
