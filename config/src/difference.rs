//! What changes from one edge configuration to another, and whether a running edge can take it. Pure: it changes
//! nothing itself. The order of nodes, providers and models in a file is no change.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Serialize, Serializer};

use crate::edge::EdgeConfig;
use crate::names::{KeyName, ModelId, NodeId, ProviderId};
use crate::parts::{Part, parts};
use crate::schema::{Applies, Key};

/// Everything that changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What takes effect at once.
    pub live: Vec<Change>,
    /// What takes effect when the edge starts the next time.
    pub restart: Vec<Change>,
}

/// One thing that changes. Serialized as the line that Display shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What changes.
    pub subject: Subject,
    /// How.
    pub action: Action,
}

/// What a configuration is made of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A section of settings, like `provider_pool`.
    Section(&'static str),
    /// A client's key.
    AuthKey(KeyName),
    /// A node.
    Node(NodeId),
    /// A provider of a node.
    Provider(NodeId, ProviderId),
    /// A model.
    Model(ModelId),
}

/// What becomes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// It is new.
    Added,
    /// It is gone.
    Removed,
    /// Some of its settings differ; never empty.
    Changed(Vec<FieldChange>),
}

/// One setting that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldChange {
    /// The setting's key.
    pub name: &'static str,
    /// The old and the new value as text; None where values are not shown.
    pub values: Option<(String, String)>,
}

/// What changes when `new` takes the place of `old`. For a first load, `old` is `new.before_first_load()`.
pub fn difference(old: &EdgeConfig, new: &EdgeConfig) -> Difference {
    let mut difference = Difference::default();
    let (old, new) = (parts(old), parts(new));
    let before: BTreeMap<&Subject, &Part> = old.iter().map(|part| (&part.subject, part)).collect();
    let after: BTreeSet<&Subject> = new.iter().map(|part| &part.subject).collect();
    for part in &new {
        match before.get(&part.subject) {
            None => difference.live.push(Change { subject: part.subject.clone(), action: Action::Added }),
            Some(old) => difference.compare(old, part),
        }
    }
    for part in old.iter().filter(|part| !after.contains(&part.subject)) {
        difference.live.push(Change { subject: part.subject.clone(), action: Action::Removed });
    }
    difference
}

impl Difference {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.live.is_empty() && self.restart.is_empty()
    }

    /// The nodes that are added, removed, or have a provider that is or that changes: whichever of them is connected
    /// must be told.
    pub fn nodes(&self) -> BTreeSet<&NodeId> {
        let subjects = self.live.iter().map(|change| &change.subject);
        let nodes = subjects.filter_map(|subject| match subject {
            Subject::Node(node) | Subject::Provider(node, _) => Some(node),
            Subject::Section(_) | Subject::AuthKey(_) | Subject::Model(_) => None,
        });
        nodes.collect()
    }

    /// Takes in what differs between two states of one part.
    fn compare(&mut self, old: &Part, new: &Part) {
        let (mut live, mut restart) = (Vec::new(), Vec::new());
        for ((key, old), (_, new)) in old.fields.iter().zip(&new.fields) {
            if old != new {
                let changes = if key.applies == Applies::Restart { &mut restart } else { &mut live };
                changes.push(field_change(key, old, new));
            }
        }
        for (changes, fields) in [(&mut self.live, live), (&mut self.restart, restart)] {
            if !fields.is_empty() {
                changes.push(Change { subject: new.subject.clone(), action: Action::Changed(fields) });
            }
        }
    }
}

fn field_change(key: &Key, old: &str, new: &str) -> FieldChange {
    let values = (!key.secret).then(|| (old.to_owned(), new.to_owned()));
    FieldChange { name: key.name, values }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Section(path) => f.write_str(path),
            Self::AuthKey(name) => write!(f, "auth key {name}"),
            Self::Node(node) => write!(f, "node {node}"),
            Self::Provider(node, provider) => write!(f, "provider {node}/{provider}"),
            Self::Model(model) => write!(f, "model {model}"),
        }
    }
}

impl fmt::Display for FieldChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.values {
            Some((old, new)) => write!(f, "{} {old} -> {new}", self.name),
            None => write!(f, "{} changed", self.name),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.subject)?;
        match &self.action {
            Action::Added => f.write_str("added"),
            Action::Removed => f.write_str("removed"),
            Action::Changed(fields) => {
                let fields: Vec<_> = fields.iter().map(ToString::to_string).collect();
                f.write_str(&fields.join(", "))
            }
        }
    }
}

impl Serialize for Change {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A line for each change under a heading, or one line that says there is none.
impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headed = [("applies live:", &self.live), ("needs a restart:", &self.restart)];
        let lines =
            headed.into_iter().filter(|(_, changes)| !changes.is_empty()).flat_map(|(head, changes)| {
                let changes = changes.iter().map(|change| format!("  {change}"));
                std::iter::once(head.to_owned()).chain(changes)
            });
        let lines: Vec<_> = lines.collect();
        f.write_str(if lines.is_empty() { "nothing changes" } else { "" })?;
        f.write_str(&lines.join("\n"))
    }
}
