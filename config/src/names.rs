//! Names as types: what carries one of these has been checked, so nobody checks it again. Cloning one copies no text.
//! What a name refers to is not looked at here.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Bytes of a model id and of other free text shown to people.
const MAX_LABEL_BYTES: usize = 256;

/// A text that is no name of the kind asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} `{found}` is not usable, expected {expected}")]
pub struct NameError {
    /// What the text should have named.
    pub kind: &'static str,
    /// The text, shortened.
    pub found: String,
    /// The rule it breaks.
    pub expected: &'static str,
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $rule:path, $expected:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The rule, as an issue or an error words it.
            pub const EXPECTED: &'static str = $expected;

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                if $rule(text) {
                    Ok(Self(text.into()))
                } else {
                    let found = crate::issue::shown(text);
                    Err(NameError { kind: $kind, found, expected: $expected })
                }
            }
        }

        impl TryFrom<&str> for $name {
            type Error = NameError;

            fn try_from(text: &str) -> Result<Self, NameError> {
                text.parse()
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;

            fn try_from(text: String) -> Result<Self, NameError> {
                text.parse()
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }
    };
}

name!(
    /// A node, as its certificate names it.
    NodeId, "node id", is_node_id, "1 to 63 of the characters a-z, 0-9 and -"
);
name!(
    /// A provider within its node.
    ProviderId, "provider id", is_provider_id, "1 to 63 of the characters a-z, 0-9, -, _ and ."
);
name!(
    /// A model, as clients ask for it or as an inference server knows it.
    ModelId, "model id", is_label, "1 to 256 bytes of printable text without spaces at its ends"
);
name!(
    /// Who a model belongs to, as the model list shows it.
    Owner, "owner", is_label, "1 to 256 bytes of printable text without spaces at its ends"
);
name!(
    /// The holder of a client key. Shown in logs and metrics; the key itself never is.
    KeyName, "key name", is_key_name, "1 to 64 of the characters a-z, A-Z, 0-9, -, _, . and @"
);
name!(
    /// The name of an environment variable.
    EnvName, "environment variable", is_env_name,
    "the name of an environment variable: letters, digits and _, not beginning with a digit"
);
name!(
    /// The name that an edge's certificate carries.
    ServerName, "server name", crate::host::is_dns_name, "a DNS name in lower case"
);
name!(
    /// A web origin, exactly as browsers send it.
    Origin, "origin", crate::host::is_origin,
    "an origin as browsers send it, like https://chat.example.com: lower case, no path, no default port"
);

fn is_node_id(text: &str) -> bool {
    (1..=63).contains(&text.len()) && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'))
}

fn is_provider_id(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.'))
}

fn is_label(text: &str) -> bool {
    (1..=MAX_LABEL_BYTES).contains(&text.len())
        && text.trim() == text
        && text.chars().all(|c| c == ' ' || !(c.is_control() || c.is_whitespace()))
}

fn is_key_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'@'))
}

fn is_env_name(text: &str) -> bool {
    (1..=256).contains(&text.len())
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
