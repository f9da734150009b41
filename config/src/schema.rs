//! Every key of both files as data: what it takes, its default, and whether a change applies live. The compiler reads
//! settings through these rows, so a key that has none cannot be read, and a written key that has none is an issue.
//! Rules that join several keys are not here but in the compilers.

mod edge;
mod node;

use std::fmt;

pub(crate) use edge::*;
pub(crate) use node::*;

use crate::kind::Kind;

/// What a key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// A whole number within these bounds, the bounds included.
    Integer(i64, i64),
    Flag,
    /// A text that the phrase describes.
    Text(&'static str),
    /// Keys of its own.
    Section,
    /// A list of what the phrase describes.
    List(&'static str),
    /// A mapping of what the phrase describes.
    Mapping(&'static str),
}

impl fmt::Display for Takes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(min, max) => write!(f, "an integer from {min} to {max}"),
            Self::Flag => f.write_str("true or false"),
            Self::Text(phrase) => f.write_str(phrase),
            Self::Section => f.write_str("a section with keys of its own"),
            Self::List(phrase) => write!(f, "a list of {phrase}"),
            Self::Mapping(phrase) => write!(f, "a mapping of {phrase}"),
        }
    }
}

/// What holds when a key is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// An issue.
    Refused,
    /// The same as if this had been written.
    Means(&'static str),
    /// Nothing is set; the phrase says what that leads to.
    Leaves(&'static str),
}

impl fmt::Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => f.write_str("required"),
            Self::Means(text) => write!(f, "`{text}`"),
            Self::Leaves(phrase) => f.write_str(phrase),
        }
    }
}

/// When a change of a key takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applies {
    /// At a refresh, without dropping anything that runs.
    Live,
    /// When the process starts the next time.
    Restart,
    /// As each key inside says.
    ByKey,
}

impl fmt::Display for Applies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Live => "live",
            Self::Restart => "restart",
            Self::ByKey => "by key",
        })
    }
}

/// One key of a section.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) takes: Takes,
    pub(crate) absent: Absent,
    pub(crate) applies: Applies,
    /// What stands there is never shown.
    pub(crate) secret: bool,
}

impl Key {
    const fn new(name: &'static str, takes: Takes, absent: Absent, applies: Applies) -> Self {
        Self { name, takes, absent, applies, secret: false }
    }

    const fn section(name: &'static str, absent: Absent) -> Self {
        Self::new(name, Takes::Section, absent, Applies::ByKey)
    }

    const fn secret(self) -> Self {
        Self { secret: true, ..self }
    }
}

/// A section: where it stands and its keys. List indices are left out of the path, like `nodes[].providers[]`.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) path: &'static str,
    pub(crate) keys: &'static [Key],
}

impl Shape {
    pub(crate) fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }

    pub(crate) fn path_of(&self, name: &str) -> String {
        crate::tree::key_path(self.path, name)
    }
}

/// The sections of a file of this kind, the top level first.
pub(crate) fn shapes(kind: Kind) -> &'static [&'static Shape] {
    match kind {
        Kind::Edge => EDGE_SHAPES,
        Kind::Node => NODE_SHAPES,
    }
}

/// A key as documents and `config schema` show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownKey {
    /// Its place, like `nodes[].providers[].capacity`.
    pub path: String,
    /// What it takes.
    pub takes: String,
    /// What holds without it: `required`, a default in backquotes, or what its absence leads to.
    pub absent: String,
    /// When a change takes effect.
    pub applies: Applies,
}

/// Every key that a file of this kind may hold, section by section.
pub fn known_keys(kind: Kind) -> Vec<KnownKey> {
    let row = |shape: &Shape, key: &Key| KnownKey {
        path: shape.path_of(key.name),
        takes: key.takes.to_string(),
        absent: key.absent.to_string(),
        applies: key.applies,
    };
    let rows = |shape: &&'static Shape| shape.keys.iter().map(|key| row(shape, key)).collect::<Vec<_>>();
    shapes(kind).iter().flat_map(rows).collect()
}
