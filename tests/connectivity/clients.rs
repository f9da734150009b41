//! Clients: requests that can be told apart at the engine, and what came back of each.

use crate::lab::{DEADLINE, MODEL};
use iop_tests::engine::{Engine, Received};
use iop_tests::http::{Answer, Call, RawConnection, Streaming, open, send};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Instant;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// A chat completion whose prompt is `name`, so that it is known again at the engine.
pub(crate) fn call(name: &str, stream: bool) -> Call {
    Call::post("/v1/chat/completions", &body(name, stream))
}

fn body(name: &str, stream: bool) -> Value {
    json!({"model": MODEL, "stream": stream, "messages": [{"role": "user", "content": name}]})
}

/// The name of a request that reached the engine.
pub(crate) fn name_of(request: &Received) -> String {
    request.json()["messages"][0]["content"].as_str().unwrap_or_default().to_owned()
}

/// A request under way, each on a connection of its own.
pub(crate) struct Client {
    answer: JoinHandle<(Result<Answer, String>, Instant)>,
}

impl Client {
    pub(crate) fn send(http: SocketAddr, call: Call) -> Self {
        let answer = async move {
            let answer = send(http, call).await.map_err(|error| format!("{error:#}"));
            (answer, Instant::now())
        };
        Self { answer: tokio::spawn(answer) }
    }

    /// As many, named `prefix 0` and so on.
    pub(crate) fn send_many(http: SocketAddr, prefix: &str, count: usize) -> Vec<Self> {
        (0..count)
            .map(|number| Self::send(http, call(&format!("{prefix} {number}"), number % 2 == 0)))
            .collect()
    }

    /// The whole answer and when it was there.
    pub(crate) async fn answer(self) -> (Answer, Instant) {
        let (answer, at) =
            timeout(DEADLINE, self.answer).await.expect("an answer in time").expect("no panic");
        (answer.expect("a whole answer"), at)
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.answer.is_finished()
    }
}

/// Asserts that an answer is the refusal for want of a live candidate, and that it names what is offline.
pub(crate) fn assert_unavailable(answer: &Answer) {
    assert_eq!(answer.status, 503, "{answer:?}");
    let error = &answer.json()["error"];
    assert_eq!(error["code"], "provider_unavailable", "{answer:?}");
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains("its node is not connected"), "{message}");
}

/// A stream or a body that has begun, with the first pieces read.
pub(crate) async fn begun(http: SocketAddr, call: Call, marker: &str) -> (Streaming, Vec<u8>) {
    let mut answer = open(http, call).await.expect("the answer begins");
    assert_eq!(answer.status, 200);
    let mut read = Vec::new();
    while !String::from_utf8_lossy(&read).contains(marker) {
        let piece = answer.next().await.expect("it goes on").expect("it has not ended");
        read.extend_from_slice(&piece.bytes);
    }
    (answer, read)
}

/// A client below HTTP, that leaves when a test says so.
pub(crate) async fn raw_client(http: SocketAddr, name: &str, stream: bool) -> RawConnection {
    let body = body(name, stream).to_string();
    let mut connection = RawConnection::open(http).await.expect("the edge accepts");
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: edge\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    connection.send(head + &body).await.expect("the edge reads");
    connection
}

/// No request reached the engine twice, and none of `names` reached it at all.
pub(crate) fn assert_ran_at_most_once(engine: &Engine, never: &[String]) {
    let mut runs: BTreeMap<String, usize> = BTreeMap::new();
    engine.look(|log| log.scripted().for_each(|request| *runs.entry(name_of(request)).or_default() += 1));
    assert!(runs.values().all(|count| *count == 1), "{runs:?}");
    for name in never {
        assert!(!runs.contains_key(name), "{name} was given up and ran: {runs:?}");
    }
}

/// At no time two connections with unfinished requests at the engine: each request came after the one before it was
/// answered, or after that one's connection was closed.
pub(crate) fn assert_one_at_a_time(engine: &Engine) {
    let requests: Vec<Received> = engine.look(|log| log.scripted().cloned().collect());
    assert!(requests.len() > 1, "requests were recorded");
    for pair in requests.windows(2) {
        let ended = pair[0].answered.or(pair[0].closed).expect("it ended before the next one came");
        assert!(ended <= pair[1].arrived, "{:?} and {:?} at once", pair[0], pair[1]);
        if pair[0].connection != pair[1].connection {
            let closed = pair[0].closed.expect("its connection was closed before there was another");
            assert!(closed <= pair[1].arrived, "{:?} and {:?}", pair[0], pair[1]);
        }
    }
    assert_eq!(engine.peak(), 1);
}
