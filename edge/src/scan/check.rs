//! The door for every test of the scan: the same body read by serde_json into a tree that keeps duplicate keys, and
//! everything the scan reports worked out again from that tree.

use std::fmt;

use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::{
    BodyScan, MODEL_BYTES, ModelField, ScanError, ScanErrorKind, Scanned, TextCount, replace_model,
    text::{BINARY_BYTES, is_binary_key, is_data_url},
};

/// A JSON value with its members in the order of the text.
#[derive(Debug, Clone, PartialEq)]
enum Tree {
    Null,
    Bool(bool),
    Whole(u64),
    Number(f64),
    Text(String),
    Array(Vec<Tree>),
    Object(Vec<(String, Tree)>),
}

/// Scans `body` cut at `splits` (taken modulo its length) and compares with serde_json. Panics where they differ.
pub(super) fn check_against_serde_json(body: &[u8], splits: &[usize]) -> Result<Scanned, ScanError> {
    let chunks = cut(body, splits);
    let scanned = scan(chunks.iter().map(AsRef::as_ref));
    assert_eq!(scanned, scan([body]), "the result depends on the chunks");
    // Value decides what is accepted; the tree follows it because it asks the same parser for the same things.
    let value = serde_json::from_slice::<serde_json::Value>(body).ok().filter(serde_json::Value::is_object);
    let Some(value) = value else {
        assert!(scanned.is_err(), "serde_json refuses what the scan accepts");
        return scanned;
    };
    let Ok(Tree::Object(members)) = serde_json::from_slice(body) else {
        panic!("Value and Tree accept the same")
    };
    if let Some(expected) = fault(&members) {
        assert_eq!(scanned.map_err(|error| error.kind), Err(expected));
        return scan([body]);
    }
    let scanned = scanned.unwrap_or_else(|error| panic!("serde_json accepts what the scan refuses: {error}"));
    let literal = scanned.model.as_ref().map_or(0..0, |model| model.literal.clone());
    assert_eq!(scanned, expected(&members, literal.clone()));
    if let Some(model) = &scanned.model {
        let read: String =
            serde_json::from_slice(&body[literal.clone()]).expect("the literal is a JSON string");
        assert_eq!(read, model.value);
        check_replacement(value, chunks, literal);
    }
    Ok(scanned)
}

fn check_replacement(mut value: serde_json::Value, chunks: Vec<Bytes>, literal: std::ops::Range<usize>) {
    let upstream = "näme \"of\" the\\model\n";
    let length: usize = chunks.iter().map(Bytes::len).sum();
    let quoted = serde_json::to_string(upstream).expect("a string is JSON");
    let replaced = replace_model(chunks, literal.clone(), quoted.clone().into()).concat();
    assert_eq!(replaced.len(), length - literal.len() + quoted.len());
    value["model"] = upstream.into();
    let read: serde_json::Value = serde_json::from_slice(&replaced).expect("the replaced body is JSON");
    assert_eq!(read, value);
}

fn cut(body: &[u8], splits: &[usize]) -> Vec<Bytes> {
    let mut splits: Vec<usize> = splits.iter().map(|split| split % (body.len() + 1)).collect();
    splits.sort_unstable();
    let body = Bytes::copy_from_slice(body);
    let starts = std::iter::once(0).chain(splits.iter().copied());
    starts
        .zip(splits.iter().copied().chain([body.len()]))
        .map(|(start, end)| body.slice(start..end))
        .collect()
}

fn scan<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Result<Scanned, ScanError> {
    let mut scan = BodyScan::new();
    for chunk in chunks {
        scan.push(chunk)?;
    }
    scan.finish()
}

/// The first thing in a JSON object that the scan refuses although JSON allows it.
fn fault(members: &[(String, Tree)]) -> Option<ScanErrorKind> {
    let mut models = 0;
    members.iter().find_map(|(key, value)| match (key.as_str(), value) {
        ("model", _) if models > 0 => Some(ScanErrorKind::DuplicateModel),
        ("model", Tree::Text(model)) => {
            models += 1;
            (model.len() > MODEL_BYTES).then_some(ScanErrorKind::ModelTooLong)
        }
        ("model", _) => Some(ScanErrorKind::ModelNotAString),
        ("stream", Tree::Bool(_) | Tree::Null) => None,
        ("stream", _) => Some(ScanErrorKind::StreamNotABool),
        _ => None,
    })
}

fn expected(members: &[(String, Tree)], literal: std::ops::Range<usize>) -> Scanned {
    let last = |members: &[(String, Tree)], key: &str| {
        members.iter().rev().find(|(name, _)| name == key).map_or(Tree::Null, |(_, value)| value.clone())
    };
    let limits = ["max_tokens", "max_completion_tokens", "max_output_tokens"].map(|key| last(members, key));
    let limits =
        limits.iter().filter_map(|limit| if let Tree::Whole(limit) = limit { Some(*limit) } else { None });
    let mut text = TextCount::default();
    members.iter().for_each(|(key, value)| count(key, value, &mut text));
    Scanned {
        model: match last(members, "model") {
            Tree::Text(value) => Some(ModelField { value, literal }),
            _ => None,
        },
        stream: last(members, "stream") == Tree::Bool(true),
        include_usage: match last(members, "stream_options") {
            Tree::Object(options) => last(&options, "include_usage") == Tree::Bool(true),
            _ => false,
        },
        max_tokens: limits.max(),
        text,
    }
}

fn count(key: &str, value: &Tree, text: &mut TextCount) {
    match value {
        Tree::Text(value) => {
            let file = is_binary_key(key.as_bytes()) && value.len() as u64 > BINARY_BYTES;
            if !file && !is_data_url(&value.as_bytes()[..value.len().min(super::text::HEAD_BYTES)]) {
                value.chars().for_each(|char| text.add_char(char));
            }
        }
        Tree::Array(items) => items.iter().for_each(|item| count("", item, text)),
        Tree::Object(members) => members.iter().for_each(|(key, value)| count(key, value, text)),
        Tree::Null | Tree::Bool(_) | Tree::Whole(_) | Tree::Number(_) => {}
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Whole(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Number(value as f64))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Tree, E> {
        Ok(Tree::Number(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree, A::Error> {
        let mut tree = Vec::new();
        while let Some(item) = items.next_element()? {
            tree.push(item);
        }
        Ok(Tree::Array(tree))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Tree, A::Error> {
        let mut tree = Vec::new();
        while let Some(member) = members.next_entry()? {
            tree.push(member);
        }
        Ok(Tree::Object(tree))
    }
}
