//! A section of a file while it is compiled: hands out its settings as values, reports whatever is not one, and never
//! stops at the first. It checks one setting at a time; rules that join several are their compiler's.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use crate::hint;
use crate::issue::{Log, NoValue, Position, shown};
use crate::kind::Kind;
use crate::scalar::FromScalar;
use crate::schema::{Absent, Key, Shape, Takes};
use crate::tree::{self, Entry, Node, Scalar, Value, index_path, key_path};

const A_MAPPING: &str = "a mapping (`name: value`)";

/// A mapping that has the keys of `shape`.
pub(crate) struct Section<'a> {
    shape: &'static Shape,
    entries: &'a [Entry<'a>],
    /// Where a missing key is reported.
    position: Position,
    path: String,
    context: Context<'a>,
}

/// What all sections of a file share.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) kind: Kind,
    pub(crate) log: &'a Log,
}

impl<'a> Section<'a> {
    /// Takes `node` as a section and reports the keys it does not know. Nothing written is an empty section, so that
    /// a section whose keys are all commented out stays readable.
    pub(crate) fn open(
        context: Context<'a>,
        shape: &'static Shape,
        node: &'a Node<'a>,
        position: Position,
        path: String,
    ) -> Result<Self, NoValue> {
        let entries = match &node.value {
            Value::Mapping(entries) => entries.as_slice(),
            _ if node.is_null() => &[],
            _ => return Err(wrong(context.log, node, node.position, &path, A_MAPPING, false)),
        };
        for entry in entries.iter().filter(|entry| shape.key(&entry.key).is_none()) {
            let expected = hint::for_unknown_key(context.kind, shape, &entry.key);
            let path = key_path(&path, &entry.key);
            context.log.report(entry.position, &path, "an unknown key", expected);
        }
        Ok(Self { shape, entries, position, path, context })
    }

    /// The section under `name`; an empty one when it is not written.
    pub(crate) fn section(&self, name: &str, shape: &'static Shape) -> Result<Section<'a>, NoValue> {
        let path = key_path(&self.path, name);
        match self.entry(name) {
            Some(entry) => Section::open(self.context, shape, &entry.value, entry.position, path),
            None => Ok(Section { shape, entries: &[], position: self.position, path, context: self.context }),
        }
    }

    /// The sections of the list under `name`, each of them readable or not; none when it is not written.
    pub(crate) fn sections(
        &self,
        name: &str,
        shape: &'static Shape,
    ) -> Result<Vec<Result<Section<'a>, NoValue>>, NoValue> {
        let path = key_path(&self.path, name);
        let open = |(index, item): (usize, &'a Node<'a>)| {
            Section::open(self.context, shape, item, item.position, index_path(&path, index))
        };
        Ok(self.items(name)?.iter().enumerate().map(open).collect())
    }

    /// The setting, or the default of its key.
    pub(crate) fn read<T: FromScalar>(&self, name: &str) -> Result<T, NoValue> {
        let key = self.key(name);
        match (self.entry(name), key.absent) {
            (Some(entry), _) => self.scalar(key, entry),
            (None, Absent::Means(text)) => {
                let scalar = Scalar { text: Cow::Borrowed(text), plain: true };
                T::from_scalar(&scalar, key.takes).ok_or_else(|| self.missing(key))
            }
            (None, _) => Err(self.missing(key)),
        }
    }

    /// The setting, if it is written.
    pub(crate) fn optional<T: FromScalar>(&self, name: &str) -> Result<Option<T>, NoValue> {
        let key = self.key(name);
        self.entry(name).map(|entry| self.scalar(key, entry)).transpose()
    }

    /// A setting in milliseconds.
    pub(crate) fn millis(&self, name: &str) -> Result<Duration, NoValue> {
        self.read::<u64>(name).map(Duration::from_millis)
    }

    /// The list of single values under `name`, or its default. `expected` is what each of them must be.
    pub(crate) fn list<T: FromScalar>(&self, name: &str, expected: &'static str) -> Result<Vec<T>, NoValue> {
        match self.key(name).absent {
            Absent::Means(text) if !self.is_written(name) => {
                let default = tree::read(text, self.context.log)?;
                let Value::List(items) = &default.value else { return Err(self.missing(self.key(name))) };
                self.values(name, items, expected)
            }
            _ => self.values(name, self.items(name)?, expected),
        }
    }

    /// The mapping under `name` as it is written; none when it is not.
    pub(crate) fn mapping(&self, name: &str) -> Result<&'a [Entry<'a>], NoValue> {
        match self.entry(name).map(|entry| &entry.value) {
            None => Ok(&[]),
            Some(Node { value: Value::Mapping(entries), .. }) => Ok(entries),
            Some(node) if node.is_null() => Ok(&[]),
            Some(node) => Err(self.wrong(name, node, A_MAPPING)),
        }
    }

    pub(crate) fn is_written(&self, name: &str) -> bool {
        self.entry(name).is_some_and(|entry| !entry.value.is_null())
    }

    /// Refuses a key that means nothing here, whatever it holds.
    pub(crate) fn forbid(&self, name: &str, found: &str, expected: &str) -> Result<(), NoValue> {
        match self.entry(name) {
            Some(entry) => {
                let path = key_path(&self.path, name);
                Err(self.context.log.report(entry.position, &path, found, expected))
            }
            None => Ok(()),
        }
    }

    /// Refuses the value of `name` if another section of the list has it already. `seen` holds their lines.
    pub(crate) fn once<T: Ord + Clone + std::fmt::Display>(
        &self,
        name: &str,
        value: &T,
        seen: &mut BTreeMap<T, u32>,
    ) -> Result<(), NoValue> {
        if let Some(line) = seen.get(value) {
            let found = format!("`{value}` a second time, first in line {line}");
            return Err(self.issue(name, found, "each once"));
        }
        seen.insert(value.clone(), self.position_of(name).line);
        Ok(())
    }

    /// Reports what is wrong with a setting beyond its own key's rule, at its value.
    pub(crate) fn issue(&self, name: &str, found: impl Into<String>, expected: impl Into<String>) -> NoValue {
        let path = key_path(&self.path, name);
        self.context.log.report(self.position_of(name), &path, found, expected)
    }

    /// Reports what is wrong with a part of a setting.
    pub(crate) fn report(
        &self,
        position: Position,
        path: &str,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> NoValue {
        self.context.log.report(position, path, found, expected)
    }

    /// The path of a setting of this section.
    pub(crate) fn path_of(&self, name: &str) -> String {
        key_path(&self.path, name)
    }

    /// Where a setting's value stands, or where it is missing.
    pub(crate) fn position_of(&self, name: &str) -> Position {
        self.entry(name).map_or(self.position, Entry::value_position)
    }

    /// The items of the list under `name`; none when it is not written.
    pub(crate) fn items(&self, name: &str) -> Result<&'a [Node<'a>], NoValue> {
        match self.entry(name).map(|entry| &entry.value) {
            None => Ok(&[]),
            Some(Node { value: Value::List(items), .. }) => Ok(items),
            Some(node) if node.is_null() => Ok(&[]),
            Some(node) => Err(self.wrong(name, node, "a list")),
        }
    }

    fn values<T: FromScalar>(
        &self,
        name: &str,
        items: &[Node<'_>],
        expected: &'static str,
    ) -> Result<Vec<T>, NoValue> {
        let path = self.path_of(name);
        let value = |(index, node): (usize, &Node<'_>)| {
            value_of(node, Takes::Text(expected)).ok_or_else(|| {
                wrong(self.context.log, node, node.position, &index_path(&path, index), expected, false)
            })
        };
        all(items.iter().enumerate().map(value))
    }

    fn scalar<T: FromScalar>(&self, key: &Key, entry: &Entry<'_>) -> Result<T, NoValue> {
        value_of(&entry.value, key.takes)
            .ok_or_else(|| self.wrong(key.name, &entry.value, &key.takes.to_string()))
    }

    fn wrong(&self, name: &str, node: &Node<'_>, expected: &str) -> NoValue {
        let (position, path) = (self.position_of(name), self.path_of(name));
        wrong(self.context.log, node, position, &path, expected, self.key(name).secret)
    }

    fn missing(&self, key: &Key) -> NoValue {
        self.issue(key.name, "nothing", key.takes.to_string())
    }

    fn entry(&self, name: &str) -> Option<&'a Entry<'a>> {
        self.entries.iter().find(|entry| entry.key == name)
    }

    fn key(&self, name: &str) -> &'static Key {
        self.shape.key(name).expect("compilers ask only for keys of their section's shape")
    }
}

/// Every value, or none if one of them has none. All of them are looked at, so that all issues are found.
pub(crate) fn all<T>(values: impl Iterator<Item = Result<T, NoValue>>) -> Result<Vec<T>, NoValue> {
    let values: Vec<_> = values.collect();
    values.into_iter().collect()
}

fn value_of<T: FromScalar>(node: &Node<'_>, takes: Takes) -> Option<T> {
    match &node.value {
        Value::Scalar(scalar) => T::from_scalar(scalar, takes),
        _ => None,
    }
}

fn wrong(
    log: &Log,
    node: &Node<'_>,
    position: Position,
    path: &str,
    expected: &str,
    secret: bool,
) -> NoValue {
    let found = match &node.value {
        Value::Scalar(scalar) => found_scalar(scalar, secret),
        Value::List(_) => "a list".to_owned(),
        Value::Mapping(_) => "a mapping".to_owned(),
        Value::Refused => return NoValue,
    };
    log.report(position, path, found, expected)
}

fn found_scalar(scalar: &Scalar<'_>, secret: bool) -> String {
    let text = shown(&scalar.text);
    if scalar.is_null() {
        "nothing".to_owned()
    } else if secret {
        "a value that is not shown here".to_owned()
    } else if scalar.text.contains("://") && scalar.text.contains('@') {
        "a URL with a user part, not shown here".to_owned()
    } else if scalar.plain {
        format!("`{text}`")
    } else {
        format!("the text \"{text}\"")
    }
}
