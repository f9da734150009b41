//! The clients: many at once, several kinds of request, some of which are given up at any moment. Every answer that claims
//! to be complete is compared byte for byte with what its provider said.

use crate::seed::Seed;
use crate::site::{ECHO, ECHO_WORDS, LARGE, SMALL, script};
use iop_tests::http::{Answer, Call, EventParser, open, send};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Answers with an error that a client may get while engines and nodes fail. Anything else is wrong.
const ALLOWED: [u16; 5] = [429, 500, 502, 503, 504];

/// How many requests ended in which way.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) counts: BTreeMap<String, u64>,
    /// What should never happen, the first few of it.
    pub(crate) wrong: Vec<String>,
}

/// Shared by all clients of one run.
pub(crate) type Tallies = Rc<RefCell<Tally>>;

/// Wrong answers that are kept.
const WRONG: usize = 20;

/// How one request ended.
enum Ending {
    Complete,
    /// An error of the edge's or the engine's, by its status and code.
    Refused(String),
    /// Begun and visibly not complete.
    Broken,
    /// Given up by the client before its answer began, or after.
    Abandoned(&'static str),
    Wrong(String),
}

/// One kind of request and what its complete answer says.
struct Ask {
    kind: &'static str,
    call: Call,
    stream: bool,
    expected: Expected,
}

enum Expected {
    /// Text, and the model's name in an answer that is not a stream.
    Text(String, String),
    /// So many vectors.
    Vectors(usize),
}

/// Sends one request after another until it is dropped.
pub(crate) async fn client(edge: SocketAddr, seed: Seed, tallies: Tallies) {
    loop {
        tokio::time::sleep(Duration::from_millis(seed.below(150))).await;
        let ask = ask(&seed);
        let kind = ask.kind;
        let ending = exchange(edge, ask, &seed).await;
        let mut tally = tallies.borrow_mut();
        let name = match ending {
            Ending::Complete => format!("{kind} complete"),
            Ending::Refused(code) => format!("refused {code}"),
            Ending::Broken => "broken off, and told so".to_owned(),
            Ending::Abandoned(moment) => format!("abandoned {moment}"),
            Ending::Wrong(what) => {
                if tally.wrong.len() < WRONG {
                    tally.wrong.push(format!("{kind}: {what}"));
                }
                "wrong".to_owned()
            }
        };
        *tally.counts.entry(name).or_default() += 1;
    }
}

/// Clients that all come at once and leave after a moment, most of them from the queue.
pub(crate) async fn burst(edge: SocketAddr, count: usize, stay: Duration) {
    let all = (0..count).map(|_| {
        tokio::task::spawn_local(async move {
            // Ends with the time; what it was is the tally's business for other clients.
            let _left = tokio::time::timeout(stay, send(edge, Call::chat(SMALL[0], true))).await;
        })
    });
    for one in all.collect::<Vec<_>>() {
        one.await.expect("a client ends");
    }
}

fn ask(seed: &Seed) -> Ask {
    let stream = !seed.once_in(3);
    match seed.below(10) {
        0..5 => small(seed, stream),
        5 => {
            let count = 1 + usize::try_from(seed.below(4)).expect("a small number");
            let input: Vec<String> = (0..count).map(|number| format!("input {number}")).collect();
            let call = Call::post("/v1/embeddings", &json!({"model": SMALL[0], "input": input}));
            Ask { kind: "embeddings", call, stream: false, expected: Expected::Vectors(count) }
        }
        6 => {
            let expected = Expected::Text(script(true).text(), "large-upstream".to_owned());
            Ask { kind: "large", call: chat(LARGE, "a large one", stream), stream, expected }
        }
        _ => echo(seed, stream),
    }
}

fn small(seed: &Seed, stream: bool) -> Ask {
    let model = SMALL[usize::from(seed.once_in(2))];
    let expected = Expected::Text(script(false).text(), format!("{model}-upstream"));
    let call = chat(model, "a small one", stream);
    match seed.once_in(5) {
        true => Ask { kind: "long", call: call.header("x-iop-context", "long"), stream, expected },
        false => Ask { kind: "small", call, stream, expected },
    }
}

/// The echo repeats what this request alone says: an answer that went to the wrong client shows.
fn echo(seed: &Seed, stream: bool) -> Ask {
    let words: Vec<String> =
        (0..ECHO_WORDS).map(|place| format!("{place}-{}", seed.below(1_000_000))).collect();
    let said = words.join(" ");
    let call = chat(ECHO, &said, stream);
    Ask { kind: "echo", call, stream, expected: Expected::Text(said, ECHO.to_owned()) }
}

fn chat(model: &str, text: &str, stream: bool) -> Call {
    let messages = json!([{"role": "user", "content": text}]);
    Call::post("/v1/chat/completions", &json!({"model": model, "messages": messages, "stream": stream}))
}

async fn exchange(edge: SocketAddr, ask: Ask, seed: &Seed) -> Ending {
    let Ask { call, stream, expected, .. } = ask;
    // One request in six is given up before its answer begins, one in six of the streams in its middle.
    let patience = if seed.once_in(6) { seed.below(60) } else { 60_000 };
    let patience = Duration::from_millis(patience);
    if !stream {
        return match tokio::time::timeout(patience, send(edge, call)).await {
            Err(_elapsed) => Ending::Abandoned("before the answer"),
            Ok(Err(_cut)) => Ending::Broken,
            Ok(Ok(answer)) if answer.status == 200 => whole(&answer, &expected),
            Ok(Ok(answer)) => refused(answer.status.as_u16(), &answer.body),
        };
    }
    let mut streaming = match tokio::time::timeout(patience, open(edge, call)).await {
        Err(_elapsed) => return Ending::Abandoned("before the answer"),
        Ok(Err(error)) => return Ending::Wrong(format!("no answer: {error:#}")),
        Ok(Ok(streaming)) => streaming,
    };
    let pieces = if seed.once_in(6) { seed.below(8) } else { u64::MAX };
    let mut read = Vec::new();
    for _ in 0..pieces {
        match streaming.next().await {
            Ok(Some(piece)) => read.extend_from_slice(&piece.bytes),
            Ok(None) if streaming.status != 200 => return refused(streaming.status.as_u16(), &read),
            Ok(None) => return events(&read, &expected),
            Err(_cut) => return Ending::Broken,
        }
    }
    Ending::Abandoned("in mid-stream")
}

fn refused(status: u16, body: &[u8]) -> Ending {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let code = &body["error"]["code"];
    if ALLOWED.contains(&status) && !code.is_null() {
        let code = code.as_str().map_or_else(|| code.to_string(), str::to_owned);
        return Ending::Refused(format!("{status} {code}"));
    }
    Ending::Wrong(format!("status {status}: {body}"))
}

/// Judges a whole JSON answer.
fn whole(answer: &Answer, expected: &Expected) -> Ending {
    let Ok(body) = serde_json::from_slice::<Value>(&answer.body) else {
        return Ending::Wrong(format!("no JSON in {} bytes with a clean end", answer.body.len()));
    };
    let fits = match expected {
        Expected::Text(text, model) => {
            body["choices"][0]["message"]["content"] == **text && body["model"] == **model
        }
        Expected::Vectors(count) => {
            let vectors = body["data"].as_array().map(Vec::as_slice).unwrap_or_default();
            vectors.len() == *count
                && (0..*count)
                    .all(|index| vectors[index]["embedding"][0].as_f64() == Some(index as f64 / 16.0))
        }
    };
    if fits { Ending::Complete } else { Ending::Wrong(format!("other bytes than were sent: {body}")) }
}

/// Judges a stream that has ended cleanly: whole with `[DONE]`, or an error event and no `[DONE]`.
fn events(read: &[u8], expected: &Expected) -> Ending {
    let events = EventParser::default().push(read);
    let done = events.last().is_some_and(|event| event.data == "[DONE]");
    let failed = events.iter().any(|event| !event.json()["error"].is_null());
    let text: String = events.iter().map(|event| event.text()).collect();
    let Expected::Text(whole, _) = expected else {
        return Ending::Wrong("a stream where vectors were due".to_owned());
    };
    match (done, failed) {
        (true, false) if text == *whole => Ending::Complete,
        (false, true) if whole.starts_with(&text) => Ending::Broken,
        _ => Ending::Wrong(format!(
            "done {done}, error {failed}, {} of {} bytes of text: {:?}",
            text.len(),
            whole.len(),
            events.last()
        )),
    }
}
