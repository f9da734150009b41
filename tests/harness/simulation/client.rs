//! A client with one request: sends it, waits as patiently as it is told to, and judges what it gets. Every request ends
//! in exactly one outcome.

use super::http::{Broken, Connection, Head};
use super::request::{Patience, Request, Script};
use super::world::World;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The whole answer, every byte of it right.
    Complete,
    /// An error of the edge's own.
    Refused(u16, String),
    /// An error that says that the node had no place for the run: the edge has given away more than there is, or told the
    /// node of it too early.
    NoPlace,
    /// The answer broke off, and that was plain to see.
    Broken,
    /// The connection ended before an answer began.
    Lost,
    /// Nobody listened.
    NoEdge,
    /// The client went away.
    GivenUp,
    /// What must not be.
    Wrong(String),
}

/// The bytes of an answer, and how they ended.
struct Got {
    head: Head,
    body: Vec<u8>,
    end: Result<(), Broken>,
}

/// Sends the request and judges its answer.
pub(super) async fn run(world: Arc<World>, request: Arc<Request>) -> Outcome {
    let outcome = match request.patience {
        Patience::GoneAfter(ms) => {
            let patience = Duration::from_millis(ms);
            timeout(patience, exchange(&world, &request)).await.unwrap_or(Ok(None))
        }
        _ => exchange(&world, &request).await,
    };
    match outcome {
        Ok(Some(got)) => judge(&world, &request, &got),
        Ok(None) => Outcome::GivenUp,
        Err(outcome) => outcome,
    }
}

/// `None`: the client went away.
async fn exchange(world: &World, request: &Request) -> Result<Option<Got>, Outcome> {
    let stream = world.connect_to_edge().ok_or(Outcome::NoEdge)?;
    let mut connection = Connection::new(stream);
    // An edge that answers early may read no further: what it says counts.
    if send(&mut connection, request).await.is_ok_and(|goes_on| !goes_on) {
        return Ok(None);
    }
    let head = connection.head().await.map_err(|_broken| Outcome::Lost)?;
    if let Patience::Pauses(ms) = request.patience {
        sleep(Duration::from_millis(ms)).await;
    }
    let mut body = Vec::new();
    let end = loop {
        match connection.body().await {
            Ok(Some(bytes)) => body.extend(bytes),
            Ok(None) => break Ok(()),
            Err(broken) => break Err(broken),
        }
        if matches!(request.patience, Patience::GoneAfterBytes(count) if body.len() >= count) {
            return Ok(None);
        }
    };
    Ok(Some(Got { head, body, end }))
}

/// Whether the client stays.
async fn send(connection: &mut Connection, request: &Request) -> Result<bool, Broken> {
    let Request { id, path, long, .. } = request;
    let body = request.body(&request.model);
    let context = if *long { "long" } else { "normal" };
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: edge\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         x-sim-id: {id}\r\nx-iop-context: {context}\r\n\r\n",
        body.len()
    );
    connection.write(head.as_bytes()).await?;
    let (first, rest) = body.as_bytes().split_at(body.len() / 2);
    connection.write(first).await?;
    match request.patience {
        Patience::SlowUpload(ms) => sleep(Duration::from_millis(ms)).await,
        Patience::HalfUpload(ms) => {
            sleep(Duration::from_millis(ms)).await;
            return Ok(false);
        }
        _ => {}
    }
    connection.write(rest).await?;
    Ok(true)
}

fn judge(world: &World, request: &Request, got: &Got) -> Outcome {
    let status = got.head.status().unwrap_or(0);
    if let Some(attempt) = got.head.number("x-sim-attempt") {
        let attempt = u32::try_from(attempt).expect("attempts are few");
        return judge_tunnel(world, request, got, status, attempt);
    }
    if status != 200 {
        return judge_error(got, status);
    }
    if request.stream { judge_stream(world, request, got) } else { judge_whole(world, request, got) }
}

/// An engine's own bytes.
fn judge_tunnel(world: &World, request: &Request, got: &Got, status: u16, attempt: u32) -> Outcome {
    let script = Script::of(world.seed, request, attempt, world.good || request.probe);
    let expected = script.answer(request, attempt);
    let expected = expected.as_bytes();
    if status != script.status {
        return Outcome::Wrong(format!("status {status} instead of {}", script.status));
    }
    let same = got.body.iter().zip(expected).take_while(|(one, other)| one == other).count();
    match got.end {
        Ok(()) if got.body == expected => Outcome::Complete,
        _ if request.stream && breaks_off_plainly(&got.body, expected) => Outcome::Broken,
        Err(_) if same == got.body.len() => Outcome::Broken,
        Ok(()) if same == got.body.len() => {
            Outcome::Wrong(format!("{same} of {} bytes look complete", expected.len()))
        }
        _ => Outcome::Wrong(format!("a wrong byte at {same}: {}", shown(&got.body[same..]))),
    }
}

/// Whether an error event, on a line of its own, stands behind the right bytes.
fn breaks_off_plainly(body: &[u8], expected: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body);
    let at = text.rfind("data: {\"error\"").or_else(|| text.rfind("event: error\n"));
    let Some(before) = at.map(|at| &body[..at]).filter(|_| text.ends_with("\n\n")) else { return false };
    expected.starts_with(before)
        || before.strip_suffix(b"\n\n").is_some_and(|before| expected.starts_with(before))
}

fn judge_error(got: &Got, status: u16) -> Outcome {
    let body = serde_json::from_slice::<Value>(&got.body).unwrap_or_default();
    let code = body["error"]["code"].as_str();
    let message = body["error"]["message"].as_str().unwrap_or_default();
    match (code, got.end) {
        (Some("provider_busy"), Ok(())) if is_no_place(message) => Outcome::NoPlace,
        (Some(code), Ok(())) => Outcome::Refused(status, code.to_owned()),
        (None, Ok(())) => Outcome::Wrong(format!("a status {status} without a code: {}", shown(&got.body))),
        (_, Err(_)) => Outcome::Lost,
    }
}

/// Whether the node says that its gate is full or the provider unknown.
fn is_no_place(message: &str) -> bool {
    message.contains("on this node runs") || message.contains("this node runs no provider")
}

/// The echo's stream, rendered by the edge.
fn judge_stream(world: &World, request: &Request, got: &Got) -> Outcome {
    let text = String::from_utf8_lossy(&got.body);
    let mut said = String::new();
    let (mut done, mut failed) = (false, false);
    for event in text.split("\n\n").filter(|event| !event.is_empty()) {
        if done || failed {
            return Outcome::Wrong(format!("an event behind the last one: {event}"));
        }
        let Some(data) = event.strip_prefix("data: ") else {
            return Outcome::Wrong(format!("not an event: {event}"));
        };
        if data == "[DONE]" {
            done = true;
            continue;
        }
        let Ok(value) = serde_json::from_str::<Value>(data) else {
            return if got.end.is_err() {
                Outcome::Broken
            } else {
                Outcome::Wrong(format!("not JSON: {data}"))
            };
        };
        failed = value.get("error").is_some();
        said.push_str(delta(&value));
    }
    match (done, failed, got.end) {
        (true, false, Ok(())) => judge_said(world, request, &said, true),
        (false, true, Ok(())) | (false, _, Err(_)) => judge_said(world, request, &said, false),
        (false, false, Ok(())) => Outcome::Wrong("a stream without its last event looks complete".into()),
        (true, _, _) => Outcome::Wrong("a stream with its last event did not end well".into()),
    }
}

fn delta(value: &Value) -> &str {
    let choice = &value["choices"][0];
    choice["delta"]["content"].as_str().or_else(|| choice["text"].as_str()).unwrap_or_default()
}

/// The echo's whole answer.
fn judge_whole(world: &World, request: &Request, got: &Got) -> Outcome {
    let value = match (serde_json::from_slice::<Value>(&got.body), got.end) {
        (Ok(value), Ok(())) => value,
        (Err(_), Ok(())) => return Outcome::Wrong(format!("not JSON: {}", shown(&got.body))),
        (_, Err(_)) => return Outcome::Broken,
    };
    let choice = &value["choices"][0];
    let said = choice["message"]["content"].as_str().or_else(|| choice["text"].as_str()).unwrap_or_default();
    judge_said(world, request, said, true)
}

fn judge_said(world: &World, request: &Request, said: &str, whole: bool) -> Outcome {
    let prompt = request.prompt_text();
    let words: Vec<&str> = said.split_whitespace().collect();
    let expected = prompt.split_whitespace().cycle();
    let partial = if whole { None } else { words.len().checked_sub(1) };
    for (at, (word, expected)) in words.iter().zip(expected).enumerate() {
        if *word != expected && partial != Some(at) {
            return Outcome::Wrong(format!("word {at} is {word:?} instead of {expected:?}"));
        }
    }
    if !whole {
        return Outcome::Broken;
    }
    if world.is_number_of_words(words.len()) {
        return Outcome::Complete;
    }
    Outcome::Wrong(format!("{} words look complete", words.len()))
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned()
}
