//! The name of a deployment: the edge's DNS name in its certificate, and the trust domain of every node's. It is a
//! name inside certificates only; nothing resolves it.

use std::str::FromStr;

use crate::node_id::NodeId;

/// The deployment's name when none is chosen.
pub const DEFAULT_EDGE_NAME: &str = "edge.iop";

/// Longest name, in characters: leaves a URI with the longest node id below SPIFFE's and DNS's own limits of 255.
const MAX_LENGTH: usize = 200;
/// Longest part between dots, from DNS.
const MAX_LABEL: usize = 63;

/// What every URI in a certificate of iop starts with.
pub(crate) const SCHEME: &str = "spiffe://";

/// A checked deployment name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deployment(String);

/// Why a text is no deployment name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EdgeNameError {
    /// More than 200 characters.
    #[error("an edge name has at most {MAX_LENGTH} characters, this one is {length} bytes long")]
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// A character that is none of `a-z`, `0-9`, `-` and the dot.
    #[error("an edge name has only a-z, 0-9, - and dots, not {found:?}")]
    Character {
        /// The first such character.
        found: char,
    },
    /// A part between dots is empty, too long, or begins or ends with a hyphen.
    #[error(
        "every part of an edge name between dots has 1 to {MAX_LABEL} characters and no hyphen at its ends, not {label:?}"
    )]
    Label {
        /// The first such part.
        label: String,
    },
    /// The last part has digits only, as in an IP address.
    #[error("an edge name is not an IP address: its last part needs a letter, not only {label:?}")]
    Numeric {
        /// The last part.
        label: String,
    },
}

impl Deployment {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The one name in a node's certificate.
    pub(crate) fn node_uri(&self, node: &NodeId) -> String {
        format!("{SCHEME}{}/node/{node}", self.0)
    }

    /// The one name in both CA certificates.
    pub(crate) fn authority_uri(&self) -> String {
        format!("{SCHEME}{}", self.0)
    }
}

impl FromStr for Deployment {
    type Err = EdgeNameError;

    fn from_str(text: &str) -> Result<Self, EdgeNameError> {
        if text.len() > MAX_LENGTH {
            return Err(EdgeNameError::TooLong { length: text.len() });
        }
        if let Some(found) = text.chars().find(|c| !matches!(c, 'a'..='z' | '0'..='9' | '-' | '.')) {
            return Err(EdgeNameError::Character { found });
        }
        let mut last = "";
        for label in text.split('.') {
            let hyphen = label.starts_with('-') || label.ends_with('-');
            if label.is_empty() || label.len() > MAX_LABEL || hyphen {
                return Err(EdgeNameError::Label { label: label.to_owned() });
            }
            last = label;
        }
        if last.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(EdgeNameError::Numeric { label: last.to_owned() });
        }
        Ok(Self(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::DnsName;

    use super::*;

    #[test]
    fn lower_case_dns_names_are_taken() {
        let label = "x".repeat(63);
        let long = format!("{label}.{label}.{label}.{}", "y".repeat(8));
        assert_eq!(long.len(), MAX_LENGTH);
        for text in
            [DEFAULT_EDGE_NAME, "edge", "a", "1.a", "my-lab.example.com", "xn--bcher-kva.example", &long]
        {
            let name: Deployment = text.parse().expect("a good name");
            assert_eq!(name.as_str(), text);
            DnsName::try_from(text).expect("rustls takes it as a DNS name too");
        }
    }

    #[test]
    fn anything_else_is_refused_with_what_is_wrong() {
        let refusal = |text: &str| text.parse::<Deployment>().expect_err("a bad name");
        assert_eq!(refusal(&"x.".repeat(101)), EdgeNameError::TooLong { length: 202 });
        for (text, found) in [
            ("Edge.iop", 'E'),
            ("edge_1", '_'),
            ("*.iop", '*'),
            ("a/b", '/'),
            ("a:1", ':'),
            ("ü", 'ü'),
            ("a b", ' '),
        ] {
            assert_eq!(refusal(text), EdgeNameError::Character { found }, "{text:?}");
        }
        let long = "x".repeat(64);
        for (text, label) in [
            ("", ""),
            ("edge.", ""),
            (".iop", ""),
            ("a..b", ""),
            ("-a.iop", "-a"),
            ("a-.iop", "a-"),
            (&long, &long),
        ] {
            assert_eq!(refusal(text), EdgeNameError::Label { label: label.to_owned() }, "{text:?}");
        }
        for (text, label) in [("10.0.0.1", "1"), ("7", "7")] {
            assert_eq!(refusal(text), EdgeNameError::Numeric { label: label.to_owned() }, "{text:?}");
        }
    }
}
