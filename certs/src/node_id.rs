//! The name of a node: what its certificate carries and the edge's configuration lists.

use std::fmt;
use std::str::FromStr;

/// Longest node id, in characters: a DNS label's length, so that an id fits wherever a host name does.
const MAX_LENGTH: usize = 63;

/// A node's id: 1 to 63 characters of `a-z`, `0-9` and `-`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(String);

/// Why a text is no node id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeIdError {
    /// No characters at all.
    #[error("a node id needs at least one character of a-z, 0-9 and -")]
    Empty,
    /// More than 63 characters.
    #[error("a node id has at most {MAX_LENGTH} characters, this one is {length} bytes long")]
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// A character outside the alphabet.
    #[error("a node id has only a-z, 0-9 and -, not {found:?}")]
    Character {
        /// The first such character.
        found: char,
    },
}

impl NodeId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for NodeId {
    type Err = NodeIdError;

    fn from_str(text: &str) -> Result<Self, NodeIdError> {
        if text.is_empty() {
            return Err(NodeIdError::Empty);
        }
        if text.len() > MAX_LENGTH {
            return Err(NodeIdError::TooLong { length: text.len() });
        }
        match text.chars().find(|c| !matches!(c, 'a'..='z' | '0'..='9' | '-')) {
            Some(found) => Err(NodeIdError::Character { found }),
            None => Ok(Self(text.to_owned())),
        }
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_the_alphabet_up_to_63_characters_are_kept_as_they_are() {
        for text in ["a", "0", "-", "gpu-a", "node-0-", &"x".repeat(63)] {
            let id: NodeId = text.parse().expect("a good id");
            assert_eq!(id.as_str(), text);
            assert_eq!(id.to_string(), text);
        }
    }

    #[test]
    fn anything_else_is_refused_with_what_is_wrong() {
        let refusal = |text: &str| text.parse::<NodeId>().expect_err("a bad id");
        assert_eq!(refusal(""), NodeIdError::Empty);
        assert_eq!(refusal(&"x".repeat(64)), NodeIdError::TooLong { length: 64 });
        let bad = [
            ("GPU", 'G'),
            ("a b", ' '),
            ("a.b", '.'),
            ("a_b", '_'),
            ("../a", '.'),
            ("a/b", '/'),
            ("a\n", '\n'),
            ("a\0", '\0'),
            ("ä", 'ä'),
            ("a%2f", '%'),
        ];
        for (text, found) in bad {
            assert_eq!(refusal(text), NodeIdError::Character { found }, "{text:?}");
        }
    }
}
