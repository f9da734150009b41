//! Which of the two files one is. Told from the top-level keys alone, so that a file with mistakes inside is still
//! checked as what it was meant to be.

use std::fmt;

use crate::issue::{Log, NoValue, Position};
use crate::schema::{EDGE, NODE, Shape};
use crate::tree::{Entry, Node, Value};

/// The kinds of configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The edge's: listeners, clients, policy, nodes and models.
    Edge,
    /// A node's: how it reaches its edge.
    Node,
}

impl Kind {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Edge => Self::Node,
            Self::Node => Self::Edge,
        }
    }

    fn shape(self) -> &'static Shape {
        match self {
            Self::Edge => &EDGE,
            Self::Node => &NODE,
        }
    }

    /// Whether `entry` can stand at the top level of this kind of file and not of the other.
    fn owns(self, entry: &Entry<'_>) -> bool {
        self.shape().key(&entry.key).is_some() && self.other().shape().key(&entry.key).is_none()
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Edge => "the edge's file",
            Self::Node => "a node's file",
        })
    }
}

/// The kind of the file with this root. Of a mixed one, the kind that most keys belong to: the rest of them are then
/// unknown keys of it.
pub(crate) fn detect(root: &Node<'_>, log: &Log) -> Result<Kind, NoValue> {
    let count = |kind: Kind| entries(root).iter().filter(|entry| kind.owns(entry)).count();
    match (count(Kind::Edge), count(Kind::Node)) {
        (0, 0) => Err(neither(root, log)),
        (edge, node) if edge >= node => Ok(Kind::Edge),
        _ => Ok(Kind::Node),
    }
}

/// Refuses a file that is plainly of the other kind, in one issue instead of one for every key in it.
pub(crate) fn require(kind: Kind, root: &Node<'_>, log: &Log) -> Result<(), NoValue> {
    let entries = entries(root);
    let foreign = entries.iter().find(|entry| kind.other().owns(entry));
    match foreign {
        Some(entry) if !entries.iter().any(|entry| kind.owns(entry)) => {
            let found = format!("{} (it has `{}`)", kind.other(), entry.key);
            Err(log.report(entry.position, "", found, kind.to_string()))
        }
        _ => Ok(()),
    }
}

fn neither(root: &Node<'_>, log: &Log) -> NoValue {
    let found =
        if root.is_null() { "an empty file" } else { "a file that is neither the edge's nor a node's" };
    let keys = |kind: Kind| {
        let own = kind.shape().keys.iter().filter(|key| kind.other().shape().key(key.name).is_none());
        own.map(|key| format!("`{}`", key.name)).collect::<Vec<_>>().join(", ")
    };
    let expected = format!("one of {} for an edge, or of {} for a node", keys(Kind::Edge), keys(Kind::Node));
    log.report(Position::START, "", found, expected)
}

fn entries<'a>(root: &'a Node<'a>) -> &'a [Entry<'a>] {
    match &root.value {
        Value::Mapping(entries) => entries,
        _ => &[],
    }
}
