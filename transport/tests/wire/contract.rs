//! CONTRACT.md says what the source says, and all of it: messages, codes and limits. Its prose is for people to keep.

use iop_transport::codes::{CloseCode, StreamCode};
use iop_transport::wire::{ALPN, PROTOCOL, RefusalReason, decode};
use std::collections::BTreeMap;

const CONTRACT: &str = include_str!("../../CONTRACT.md");
const CODES: &str = include_str!("../../src/codes.rs");
const MESSAGES: [&str; 2] =
    [include_str!("../../src/wire/control.rs"), include_str!("../../src/wire/run.rs")];
const CONSTANTS: [&str; 6] = [
    include_str!("../../src/wire/limits.rs"),
    include_str!("../../src/wire/codec.rs"),
    include_str!("../../src/session.rs"),
    include_str!("../../src/endpoint.rs"),
    include_str!("../../src/tunnel/edge.rs"),
    include_str!("../../src/tunnel/node.rs"),
];

/// Constants that the other end cannot notice.
const PRIVATE: [&str; 4] = ["CHUNK_BYTES", "CONTROL_PRIORITY", "EDGE_SOCKET_BYTES", "NODE_SOCKET_BYTES"];

/// The cells of every table row below this heading, up to the next heading.
fn rows(heading: &str) -> Vec<Vec<&'static str>> {
    let rows: Vec<Vec<&str>> = CONTRACT
        .lines()
        .skip_while(|line| *line != heading)
        .skip(1)
        .take_while(|line| !line.starts_with('#'))
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"))
        .map(|line| line.split(" | ").collect())
        .collect();
    assert!(rows.len() > 2, "no table below `{heading}`");
    // The first two are the head and its underline.
    rows[2..].to_vec()
}

fn unquoted(cell: &str) -> &str {
    cell.strip_prefix('`')
        .and_then(|cell| cell.strip_suffix('`'))
        .unwrap_or_else(|| panic!("no code: {cell}"))
}

/// Who sends the code with this name, as the source's comment begins.
fn sender(list: &str, name: &str) -> String {
    let codes = CODES.split_once(list).expect("the list").1;
    let line = format!("        {name} = 0x");
    let comments = codes.split_once(&line).unwrap_or_else(|| panic!("no `{name}` in the list")).0;
    let comment = comments.lines().last().expect("a comment").trim();
    let who = comment.strip_prefix("/// ").and_then(|text| text.split_once(": "));
    who.unwrap_or_else(|| panic!("`{name}` does not say who sends it")).0.to_lowercase()
}

/// One code as contract and source have it: number, name, sender, meaning.
type Code = (String, String, String, String);

fn written(heading: &str) -> Vec<Code> {
    rows(heading)
        .into_iter()
        .map(|row| {
            let [number, name, sender, meaning, other] = row[..] else { panic!("five cells: {row:?}") };
            assert!(!other.is_empty(), "{name} says what the other end does");
            (unquoted(number).into(), unquoted(name).into(), sender.into(), meaning.into())
        })
        .collect()
}

// [contract-spec-sync]
#[test]
fn the_contract_has_every_stream_code_and_no_other() {
    let expected: Vec<Code> = StreamCode::ALL
        .iter()
        .map(|code| {
            let name = format!("{code:?}");
            let sender = sender("StreamCode {", &name);
            (format!("{:#x}", *code as u32), name, sender, code.explain().into())
        })
        .collect();
    assert_eq!(written("## Codes of one run's stream"), expected);
}

// [contract-spec-sync]
#[test]
fn the_contract_has_every_close_code_and_no_other() {
    let expected: Vec<Code> = CloseCode::ALL
        .iter()
        .map(|code| {
            let name = format!("{code:?}");
            let sender = sender("CloseCode {", &name);
            (format!("{:#x}", *code as u32), name, sender, code.explain().into())
        })
        .collect();
    assert_eq!(written("## Codes of the whole connection"), expected);
}

/// The value of a constant's expression: a number, a shift or product of two, a time in seconds (here in milliseconds),
/// or another constant.
fn value(expression: &str, known: &BTreeMap<&str, u64>) -> u64 {
    if let Some((number, shift)) = expression.split_once(" << ") {
        return value(number, known) << value(shift, known);
    }
    if let Some((left, right)) = expression.split_once(" * ") {
        return value(left, known) * value(right, known);
    }
    if let Some(seconds) =
        expression.strip_prefix("Duration::from_secs(").and_then(|rest| rest.strip_suffix(')'))
    {
        return 1000 * value(seconds, known);
    }
    let number = expression.replace('_', "").parse().ok();
    number.or_else(|| known.get(expression).copied()).unwrap_or_else(|| panic!("what is `{expression}`?"))
}

// [contract-spec-sync]
#[test]
fn the_contract_has_every_limit_and_no_other() {
    let mut known = BTreeMap::new();
    for line in CONSTANTS.iter().flat_map(|source| source.lines()) {
        let line = line.trim_start_matches("pub ");
        let Some((name, rest)) = line.strip_prefix("const ").and_then(|line| line.split_once(": ")) else {
            continue;
        };
        let (kind, expression) =
            rest.trim_end_matches(';').split_once(" = ").expect("a value on the same line");
        if matches!(kind, "u16" | "u32" | "u64" | "usize" | "Duration") && !PRIVATE.contains(&name) {
            known.insert(name, value(expression, &known));
        }
    }
    assert!(known.len() > 10, "the constants are found: {known:?}");
    let written: BTreeMap<&str, u64> = rows("## Limits")
        .into_iter()
        .map(|row| (unquoted(row[0]), row[1].parse().expect("a number")))
        .collect();
    assert_eq!(written, known);
    let alpn = std::str::from_utf8(ALPN).expect("ASCII");
    assert!(CONTRACT.contains(&format!("The ALPN is `{alpn}`.")));
    assert!(CONTRACT.contains(&format!("The protocol version is {PROTOCOL}.")));
}

// [contract-spec-sync]
#[test]
fn the_contract_names_the_refusals_that_are_final() {
    let every = rows("### `RefusalReason`");
    let last = [RefusalReason::TimedOut, RefusalReason::BadAnswer, RefusalReason::BadRequest];
    let mut names = Vec::new();
    for (index, row) in every.iter().enumerate() {
        let index = u8::try_from(index).expect("few reasons");
        let reason: RefusalReason = decode(&[index]).expect("a reason of this index");
        assert_eq!(unquoted(row[1]), format!("{reason:?}"));
        if !reason.may_try_elsewhere() {
            names.push(reason);
        }
    }
    assert_eq!(names, last);
    let [first, second, third] = last;
    let sentence = format!("not after `{first:?}`, `{second:?}` and `{third:?}`");
    assert!(CONTRACT.contains(&sentence), "{sentence}");
}

/// A message type of the source: its fields with their types, or its variants with what they hold.
#[derive(Debug, PartialEq)]
struct Message {
    name: String,
    parts: Vec<(String, String)>,
}

fn messages(source: &str) -> Vec<Message> {
    let mut found: Vec<Message> = Vec::new();
    let mut inside = false;
    for line in source.lines().filter(|line| !line.trim_start().starts_with("//")) {
        let head = line.strip_prefix("pub struct ").or_else(|| line.strip_prefix("pub enum "));
        if let Some(name) = head.and_then(|head| head.strip_suffix(" {")) {
            found.push(Message { name: name.into(), parts: Vec::new() });
            inside = true;
        } else if line == "}" {
            inside = false;
        } else if inside && line != "    }," {
            let parts = &mut found.last_mut().expect("inside of one").parts;
            let text = line.trim();
            if let Some((field, kind)) =
                text.strip_prefix("pub ").and_then(|text| text.strip_suffix(',')?.split_once(": "))
            {
                parts.push((field.into(), kind.into()));
            } else if let Some(field) = line.strip_prefix("        ").and_then(|text| text.strip_suffix(','))
            {
                let holds = &mut parts.last_mut().expect("fields of a variant").1;
                holds.push_str(if holds.is_empty() { "" } else { ", " });
                holds.push_str(field);
            } else if let Some(variant) = text.strip_suffix(" {") {
                parts.push((variant.into(), String::new()));
            } else if let Some(variant) = text.strip_suffix(',') {
                let (name, holds) = variant.split_once('(').unwrap_or((variant, ""));
                parts.push((name.into(), holds.trim_end_matches(')').into()));
            }
        }
    }
    found
}

// [contract-spec-sync]
#[test]
fn the_contract_has_every_message_with_every_part_of_it_in_order() {
    let expected: Vec<Message> = MESSAGES.iter().flat_map(|source| messages(source)).collect();
    assert!(expected.len() > 15, "the messages are found: {expected:?}");
    let headings = CONTRACT.lines().filter_map(|line| line.strip_prefix("### "));
    let written: Vec<Message> = headings
        .map(|name| {
            let parts = rows(&format!("### {name}"));
            let parts = parts.iter().enumerate().map(|(index, row)| match row[..] {
                [field, kind, _meaning] => (unquoted(field).into(), unquoted(kind).into()),
                [number, variant, holds, _meaning] => {
                    assert_eq!(number, index.to_string(), "{variant}");
                    let holds = if holds == "nothing" { String::new() } else { holds.replace('`', "") };
                    (unquoted(variant).into(), holds)
                }
                _ => panic!("three or four cells: {row:?}"),
            });
            Message { name: unquoted(name).into(), parts: parts.collect() }
        })
        .collect();
    assert_eq!(written, expected);
}
