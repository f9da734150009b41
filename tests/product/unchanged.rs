//! What crosses iop unchanged, byte for byte, and what must not cross it at all.

use crate::lab::{deploy, plan};
use iop_tests::deployment::Plan;
use iop_tests::engine::{Engine, Script};
use iop_tests::http::{Call, send};
use serde_json::json;
use std::time::Duration;

/// Everything that a JSON library would write otherwise: spaces, escapes, long numbers, line ends, key order.
const BODY: &str = concat!(
    "\r\n{ \"messages\" : [ {\"role\":\"user\", \"content\":\"h\\u00e9llo \\ud83d\\ude00 é \\/ {\\\"model\\\":1}\"} ],\n",
    "\t\"seed\":123456789012345678901234567890, \"temperature\":0.10, \"top_p\":1E-2, \"x\":{\"model\":\"ornith:35b\"},",
    "\"model\" : MODEL ,\"tools\":[{\"model\":\"ornith:35b\"}], \"stop\":[], \"user\":null }\n  "
);

fn body(model: &str) -> String {
    BODY.replace("MODEL", model)
}

fn post(path: &str, body: String) -> Call {
    Call::post(path, &json!(null)).pieces([body], Duration::ZERO)
}

#[tokio::test]
async fn only_the_value_of_the_top_level_model_is_changed_in_a_request_body() {
    let engine = Engine::start();
    let iop = deploy(plan(&engine, 1)).await;
    // The same name in several spellings of JSON.
    for literal in ["\"ornith:35b\"", "\"ornith\\u003a35b\"", "\"\\u006frnith:35\\u0062\""] {
        let answer =
            send(iop.http, post("/v1/chat/completions", body(literal))).await.expect("the edge answers");
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    engine.look(|log| {
        assert_eq!(log.requests.len(), 3);
        for request in &log.requests {
            assert_eq!(String::from_utf8_lossy(&request.body), body("\"upstream-model\""));
            assert_eq!(request.header("content-length"), request.body.len().to_string());
        }
    });
    iop.shut_down().await;
}

#[tokio::test]
async fn a_request_body_is_unchanged_where_the_names_are_equal() {
    let engine = Engine::start();
    let plan = Plan::new().provider("gpu-a", "engine", &engine.endpoint(), 1);
    let iop = deploy(plan.model("ornith:35b", &[("gpu-a", "engine")], "ornith:35b")).await;
    let sent = body("\"ornith\\u003a35b\"");
    // Whole, and chunked in pieces that cut the model's name and an escape apart.
    let at = sent.find("\\u003a").expect("the escape is there");
    let pieces =
        [&sent[..at + 3], &sent[at + 3..at + 8], &sent[at + 8..]].map(|piece| piece.as_bytes().to_vec());
    let whole = post("/v1/chat/completions", sent.clone());
    let chunked = whole.clone().pieces(pieces, Duration::from_millis(5)).chunked();
    for call in [whole, chunked] {
        assert_eq!(send(iop.http, call).await.expect("the edge answers").status, 200);
    }
    engine.look(|log| {
        assert_eq!(log.requests.len(), 2);
        for request in &log.requests {
            assert_eq!(String::from_utf8_lossy(&request.body), sent);
        }
    });
    iop.shut_down().await;
}

#[tokio::test]
async fn path_query_and_headers_reach_the_provider_and_the_clients_credentials_never_do() {
    const KEY: &str = "sk-alice-0123456789";
    let engine = Engine::start();
    let keys = json!({"keys": [{"name": "alice", "key": KEY}]});
    let iop = deploy(plan(&engine, 1).edge_value("/auth", keys)).await;
    let call = || {
        let call = post("/v1/chat/completions?api-version=2&x=%2F%20", body("\"ornith:35b\""));
        call.header("x-stainless-lang", "python").header("X-Twice", "1").header("x-twice", "2")
    };
    let secrets = |call: Call| {
        call.header("api-key", KEY)
            .header("proxy-authorization", KEY)
            .header("cookie", KEY)
            .header("x-a", "kept")
    };
    for (name, value) in [("authorization", format!("Bearer {KEY}")), ("x-api-key", KEY.to_owned())] {
        let answer = send(iop.http, secrets(call()).header(name, &value)).await.expect("the edge answers");
        assert_eq!(answer.status, 200, "{name}: {answer:?}");
    }
    for wrong in [call(), call().header("authorization", "Bearer sk-mallory")] {
        let answer = send(iop.http, wrong).await.expect("the edge answers");
        let code = answer.json()["error"]["code"].take();
        assert_eq!((answer.status.as_u16(), code), (401, json!("invalid_api_key")), "{answer:?}");
    }
    engine.look(|log| {
        assert_eq!(log.requests.len(), 2, "only requests with a good key arrive");
        for request in &log.requests {
            assert_eq!(request.path, "/v1/chat/completions?api-version=2&x=%2F%20");
            assert_eq!(request.header("x-stainless-lang"), "python");
            assert_eq!(request.header("x-a"), "kept");
            let twice: Vec<_> = request.headers.get_all("x-twice").iter().collect();
            assert_eq!(twice, ["1", "2"]);
            let headers = format!("{:?}", request.headers);
            assert!(!headers.contains(KEY), "{headers}");
            for name in ["authorization", "x-api-key", "api-key", "proxy-authorization", "cookie"] {
                assert!(!request.headers.contains_key(name), "{name}: {headers}");
            }
            assert_eq!(request.header("host"), engine.address().to_string());
        }
    });
    let logs = iop.edge.stderr().concat();
    assert!(logs.contains("started") && !logs.contains(KEY), "{logs}");
    iop.shut_down().await;
}

/// Bytes that are no text, with everything in them that a line- or event-minded relay would trip over.
fn binary() -> Vec<u8> {
    let all: Vec<u8> = (0..=255).collect();
    [&all[..], b"\r\n\r\ndata: [DONE]\n\n\0", &all.repeat(300)].concat()
}

/// A header as bytes: not every one is text.
type Header = (&'static str, &'static [u8]);

/// Status, headers and body of answers as a provider writes them. 429 and 503 are the pool's business, not the client's.
fn answers() -> Vec<(u16, Vec<Header>, Vec<u8>)> {
    // gzip of the six bytes "hello\n", made once.
    let gzip =
        b"\x1f\x8b\x08\0\0\0\0\0\0\x03\xcb\x48\xcd\xc9\xc9\xe7\x02\0\x20\x30\x3a\x36\x06\0\0\0".to_vec();
    let error = br#"{"error": {"message": "no such \u006dodel",  "code": 404}}"#.to_vec();
    vec![
        (200, vec![("content-type", b"application/octet-stream")], binary()),
        (
            200,
            vec![("content-type", b"application/json"), ("content-encoding", b"gzip"), ("vary", b"*")],
            gzip,
        ),
        (201, vec![("location", b"/v1/files/1"), ("x-empty", b"")], Vec::new()),
        (307, vec![("location", b"http://127.0.0.1:1/elsewhere")], b"not followed".to_vec()),
        (400, vec![("content-type", b"text/plain; charset=\"x y\"")], b"caf\xe9".to_vec()),
        (404, vec![("content-type", b"application/json"), ("x-odd", b"caf\xe9, \"a;b\" =")], error),
        (
            418,
            vec![("x-twice", b"a=1; Path=/"), ("x-twice", b"b=2"), ("x-ratelimit-remaining", b"0")],
            binary(),
        ),
        (
            500,
            vec![("server", b"uvicorn"), ("retry-after", b"7"), ("x-should-retry", b"false")],
            b"{}".to_vec(),
        ),
        (599, vec![("x-request-number", b"12")], b"odd".to_vec()),
    ]
}

#[tokio::test]
async fn status_headers_and_bytes_of_an_answer_reach_the_client_unchanged() {
    let engine = Engine::start();
    let iop = deploy(plan(&engine, 1)).await;
    for (status, headers, body) in answers() {
        let mut raw =
            format!("HTTP/1.1 {status} Odd Reason\r\nContent-Length: {}\r\n", body.len()).into_bytes();
        for (name, value) in &headers {
            raw.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
        }
        raw.extend([b"\r\n", &body[..]].concat());
        engine.queue_scripts([Script::raw(raw)]);
        let answer = send(iop.http, Call::chat("ornith:35b", false)).await.expect("the edge answers");
        assert_eq!(answer.status.as_u16(), status, "{answer:?}");
        assert!(answer.body == body, "{status}: {} of {} bytes", answer.body.len(), body.len());
        assert_eq!(answer.header("content-length"), body.len().to_string());
        let own = ["content-length", "date", "x-request-id"];
        let got = answer.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        let mut got: Vec<_> = got.filter(|(name, _)| !own.contains(name)).collect();
        got.sort_by_key(|(name, _)| *name);
        let mut sent = headers;
        sent.sort_by_key(|(name, _)| *name);
        assert_eq!(got, sent, "headers of {status}");
    }
    assert_eq!(engine.look(|log| log.requests.len()), answers().len(), "one request for each answer");
    iop.shut_down().await;
}
