//! Holds CONTRACT-openai.md true: its tables and numbers are the code's, in both directions. [contract-spec-sync]

use super::route::{Dialect, RUNS};
use super::{GatewayError, HOP_BY_HOP, NOT_FORWARDED, body, error, relay};
use crate::render::error as render;
use crate::scan::multipart::{self, MultipartError, MultipartErrorKind};
use crate::scan::{MAX_DEPTH, MODEL_BYTES, ScanError, ScanErrorKind};
use crate::{open_files, server};
use std::collections::BTreeSet;
use std::time::Duration;

const CONTRACT: &str = include_str!("../../CONTRACT-openai.md");

/// The cells of the table rows of a chapter, without backquotes and without the table's head.
fn rows(chapter: &str) -> Vec<Vec<String>> {
    let text = CONTRACT.split_once(&format!("\n## {chapter}\n")).expect("the chapter is there").1;
    let text = text.split("\n## ").next().unwrap_or_default();
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    let cells = |row: &str| {
        let cells = row.trim_matches('|').split(" | ");
        cells.map(|cell| cell.trim().trim_matches('`').to_owned()).collect()
    };
    let rows: Vec<Vec<String>> = rows.map(cells).collect();
    assert!(rows.len() > 1, "the table of {chapter} has rows");
    rows
}

/// The names in backquotes of the paragraph behind the one that ends so.
fn names_after(sentence: &str) -> BTreeSet<&'static str> {
    let rest = CONTRACT.split_once(sentence).unwrap_or_else(|| panic!("{sentence:?} is there")).1;
    let paragraph = rest.trim_start().split("\n\n").next().unwrap_or_default();
    paragraph.split('`').skip(1).step_by(2).collect()
}

#[test]
fn the_paths_of_the_contract_are_the_paths_of_the_code() {
    let models = ["/v1/models", "/v1/models/{id}"]
        .map(|path| [path, "GET, HEAD", "none", "OpenAI", "no", "answered by the edge"].map(str::to_owned));
    let runs = RUNS.iter().map(|(path, route)| {
        let body = if route.form { "form" } else { "JSON" };
        let errors = if route.dialect == Dialect::Messages { "Anthropic" } else { "OpenAI" };
        let streams = if route.streams { "yes" } else { "no" };
        let else_served = if route.operation.is_some() { "normalized run" } else { "not served" };
        [*path, "POST", body, errors, streams, else_served].map(str::to_owned)
    });
    let expected: Vec<Vec<String>> = models.into_iter().chain(runs).map(Vec::from).collect();
    assert_eq!(rows("Paths"), expected);
}

#[test]
fn the_errors_of_the_contract_are_the_errors_of_the_code() {
    let kind = |dialect, status: u16, code| {
        let body = render::body(dialect, status, code, "", "");
        let body: serde_json::Value = serde_json::from_slice(&body).expect("an error's body is JSON");
        body["error"]["type"].as_str().expect("an error has a type").to_owned()
    };
    let in_code: BTreeSet<Vec<String>> = every_error()
        .iter()
        .map(|error| {
            let (status, code) = error.status_and_code();
            let status = status.as_u16();
            let kinds = [render::Dialect::OpenAi, render::Dialect::Anthropic].map(|d| kind(d, status, code));
            [vec![code.to_owned(), status.to_string()], kinds.to_vec()].concat()
        })
        .collect();
    let rows = rows("Errors");
    let in_contract: BTreeSet<Vec<String>> = rows.iter().map(|row| row[..4].to_vec()).collect();
    assert_eq!(in_contract, in_code);
    assert_eq!(in_contract.len(), rows.len(), "each code once");
    assert!(rows.iter().all(|row| row.len() == 5 && row[4].len() > 5), "each code says when");
}

#[test]
fn every_429_and_503_says_when_to_come_again() {
    for error in every_error() {
        let response = error.response(Dialect::Chat, "id");
        let turned_away = matches!(response.status().as_u16(), 429 | 503);
        for name in ["retry-after", "retry-after-ms"] {
            assert_eq!(response.headers().contains_key(name), turned_away, "{name} of {error:?}");
        }
    }
    let millis = error::RETRY_AFTER.as_millis();
    assert!(CONTRACT.contains(&format!("`retry-after-ms: {millis}` and `retry-after: {}`", millis / 1000)));
}

#[test]
fn the_headers_that_are_left_out_are_the_ones_of_the_code() {
    let hop_by_hop = names_after("Of one connection only:");
    assert_eq!(hop_by_hop, HOP_BY_HOP.into_iter().chain(["connection"]).collect());
    assert_eq!(names_after("Meant for the edge, not for the provider:"), NOT_FORWARDED.into_iter().collect());
    let not_returned = names_after("with\nwhich it would speak for the edge's address:");
    let prefix = format!("{}*", relay::CORS_PREFIX);
    assert_eq!(not_returned, relay::NOT_RETURNED.into_iter().chain([prefix.as_str()]).collect());
}

#[test]
fn the_numbers_of_the_contract_are_the_limits_of_the_code() {
    let text = CONTRACT.split_whitespace().collect::<Vec<_>>().join(" ");
    let kib = |bytes: usize| format!("{} KiB", bytes >> 10);
    let numbers = [
        format!("at most {MAX_DEPTH} levels deep"),
        format!("a string of at most {MODEL_BYTES} bytes"),
        format!("at most {MODEL_BYTES} bytes of UTF-8"),
        format!("a boundary of 1 to {} bytes", super::format::BOUNDARY_BYTES),
        format!("The head of a part has at most {} bytes", multipart::HEAD_BYTES),
        format!("stopped coming for {} s", body::STALL_TIMEOUT.as_secs()),
        format!(
            "(at most {} bytes, {} s, and {} ms of silence)",
            body::DISCARDED_BYTES,
            body::DISCARD_TIMEOUT.as_secs(),
            body::DISCARD_SILENCE.as_millis()
        ),
        format!("larger than {} or 100 headers", kib(2 * server::HEAD_BYTES)),
        // The system calls a socket writable again when half of this is free.
        format!(
            "less than about {} (HTTP/2: {})",
            kib(server::UNSENT_BYTES as usize / 2),
            kib(server::PIECE_BYTES)
        ),
        format!("looked at every {} s", server::LOOK_INTERVAL.as_secs()),
        format!("the first head within {} s", server::HEADER_TIMEOUT.as_secs()),
        format!("up to {} requests at a time on one connection of HTTP/2", super::MAX_STREAMS),
        format!("`http.max_connections` and {} more", open_files::RESERVED),
        format!("once in {} s", server::SAID_EVERY.as_secs()),
        format!("A TLS handshake must come within {} s", server::HANDSHAKE_TIMEOUT.as_secs()),
    ];
    for number in numbers {
        assert!(text.contains(&number), "the contract should say: {number}");
    }
}

/// One error of each kind. A kind that is missing here does not compile in [`is_listed`].
fn every_error() -> Vec<GatewayError> {
    use GatewayError::*;
    let name = || "x".to_owned();
    let errors = vec![
        InvalidRequest(name()),
        InvalidBody(ScanError { offset: 0, kind: ScanErrorKind::Depth }),
        InvalidForm(MultipartError { offset: 0, kind: MultipartErrorKind::NoName }),
        BodyBroken,
        BodyStalled(Duration::ZERO),
        NoKey,
        WrongKey,
        KeysGone,
        PathNotFound(name()),
        MethodNotAllowed(name(), "GET"),
        ModelNotFound(name()),
        ApiNotServed { model: name(), api: "x" },
        TooLarge { max: 1 },
        HeadersTooLarge { max: 1 },
        ContextLengthExceeded { model: name(), tokens: 2, window: 1 },
        Overloaded { max: 1 },
        QueueFull { max: 1 },
        KeyQueueFull { max: 1 },
        QueueTimeout(Duration::ZERO),
        Unavailable { model: name(), reasons: name() },
        Disconnected { provider: name() },
        Busy { provider: name(), detail: name() },
        Unreachable { provider: name(), detail: name() },
        TimedOut { provider: name(), detail: name() },
        BadAnswer { provider: name(), detail: name() },
        RefusedRequest { provider: name(), detail: name() },
    ];
    let kinds: BTreeSet<usize> = errors.iter().map(is_listed).collect();
    assert_eq!(kinds.len(), errors.len(), "each kind once");
    assert_eq!(kinds.last(), Some(&(errors.len() - 1)), "and all of them");
    errors
}

/// The number of an error's kind, without gaps.
fn is_listed(error: &GatewayError) -> usize {
    use GatewayError::*;
    match error {
        InvalidRequest(_) => 0,
        InvalidBody(_) => 1,
        InvalidForm(_) => 2,
        BodyBroken => 3,
        BodyStalled(_) => 4,
        NoKey => 5,
        WrongKey => 6,
        KeysGone => 7,
        PathNotFound(_) => 8,
        MethodNotAllowed(..) => 9,
        ModelNotFound(_) => 10,
        ApiNotServed { .. } => 11,
        TooLarge { .. } => 12,
        HeadersTooLarge { .. } => 13,
        ContextLengthExceeded { .. } => 14,
        Overloaded { .. } => 15,
        QueueFull { .. } => 16,
        KeyQueueFull { .. } => 17,
        QueueTimeout(_) => 18,
        Unavailable { .. } => 19,
        Disconnected { .. } => 20,
        Busy { .. } => 21,
        Unreachable { .. } => 22,
        TimedOut { .. } => 23,
        BadAnswer { .. } => 24,
        RefusedRequest { .. } => 25,
    }
}
