//! The scan of JSON bodies: the same body read by serde_json into a tree that keeps duplicate keys, and everything that the
//! scan reports worked out again from that tree.

use std::fmt;

use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use iop_edge::scan::{
    BodyScan, MODEL_BYTES, ModelField, ScanError, ScanErrorKind, Scanned, TextCount, replace_model,
};

/// Strings under certain keys are files from this length on, in bytes.
const BINARY_BYTES: usize = 1024;

/// A data URL is known by so much of its beginning, in bytes.
const HEAD_BYTES: usize = 128;

/// How the body is cut, and the body.
pub fn json_scan(data: &[u8]) {
    let [how, body @ ..] = data else { return };
    let mut at = 0;
    let ends = super::pieces(*how, body).into_iter().map(|piece| {
        at += piece.len();
        at
    });
    let ends: Vec<usize> = ends.collect();
    if let Err(error) = check_against_serde_json(body, &ends) {
        assert!(error.offset <= body.len(), "{error}");
    }
}

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
pub fn check_against_serde_json(body: &[u8], splits: &[usize]) -> Result<Scanned, ScanError> {
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
            let is_binary =
                matches!(key, "url" | "data" | "file_data" | "b64_json") && value.len() > BINARY_BYTES;
            let head = &value.as_bytes()[..value.len().min(HEAD_BYTES)];
            let is_url = head.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"data:"))
                && head.windows(8).any(|window| window == b";base64,");
            if !is_binary && !is_url {
                let cjk = value.chars().filter(|&char| is_cjk(char));
                text.cjk += cjk.clone().count() as u64;
                text.bytes += (value.len() - cjk.map(char::len_utf8).sum::<usize>()) as u64;
            }
        }
        Tree::Array(items) => items.iter().for_each(|item| count("", item, text)),
        Tree::Object(members) => members.iter().for_each(|(key, value)| count(key, value, text)),
        Tree::Null | Tree::Bool(_) | Tree::Whole(_) | Tree::Number(_) => {}
    }
}

/// Scripts whose characters are about a token each.
fn is_cjk(char: char) -> bool {
    let blocks = [
        '\u{1100}'..='\u{11ff}',
        '\u{2e80}'..='\u{a4cf}',
        '\u{a960}'..='\u{a97f}',
        '\u{ac00}'..='\u{d7ff}',
        '\u{f900}'..='\u{faff}',
        '\u{ff00}'..='\u{ffef}',
        '\u{20000}'..='\u{3ffff}',
    ];
    blocks.iter().any(|block| block.contains(&char))
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
