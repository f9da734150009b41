//! HTTP/1 below what a client library would send: heads too large, bodies that lie about their length, several requests at
//! once, old versions. No answer may hang, and none may take the edge down.

use crate::lab::{DEADLINE, MODEL, chat, deploy, plan, wait_for_rest};
use iop_tests::deployment::Deployment;
use iop_tests::engine::{Engine, Script};
use iop_tests::http::{Call, RawConnection, send};
use serde_json::Value;
use std::time::Duration;

/// Sends these bytes, and what the edge says before it closes the connection. A reset is no answer.
async fn exchange(iop: &Deployment, bytes: impl AsRef<[u8]>) -> String {
    let mut connection = RawConnection::open(iop.http).await.expect("the edge listens");
    connection.send(bytes).await.expect("sent");
    let answer = tokio::time::timeout(DEADLINE, connection.read_to_end()).await;
    answer.expect("the connection ends in time").expect("an orderly end")
}

fn post(headers: &str, body: &str) -> String {
    format!("POST /v1/chat/completions HTTP/1.1\r\nhost: edge\r\n{headers}\r\n{body}")
}

async fn assert_serves(iop: &Deployment) {
    let answer = send(iop.http, Call::chat(MODEL, false)).await.expect("an answer");
    assert_eq!(answer.status, 200, "{answer:?}");
    wait_for_rest(iop).await;
}

#[tokio::test]
async fn heads_and_chunks_that_are_no_http_are_answered_or_cut_and_the_edge_goes_on() {
    let engine = Engine::start();
    let iop = deploy(plan(&engine, 1)).await;
    let long = "x".repeat(200 << 10);
    let many: String = (0..500).map(|number| format!("x-{number}: y\r\n")).collect();
    let cases = [
        (post(&format!("x-long: {long}\r\n"), ""), "HTTP/1.1 431 "),
        (post(&many, ""), "HTTP/1.1 431 "),
        (format!("GET /{long} HTTP/1.1\r\nhost: x\r\n\r\n"), "HTTP/1.1 4"),
        ("\u{16}\u{3}\u{1}\u{0}garbage\r\n\r\n".to_owned(), "HTTP/1.1 400 "),
        ("GET / HTTP/3.7\r\n\r\n".to_owned(), "HTTP/1.1 400 "),
        ("GET /bad path HTTP/1.1\r\n\r\n".to_owned(), "HTTP/1.1 400 "),
        (post("no colon\r\n", ""), "HTTP/1.1 400 "),
        (post("content-length: 5\r\ncontent-length: 6\r\n", "{}"), "HTTP/1.1 400 "),
        (post("content-length: -1\r\n", ""), "HTTP/1.1 400 "),
        (post("transfer-encoding: chunked, gzip\r\n", ""), "HTTP/1.1 400 "),
        (post("transfer-encoding: chunked\r\nconnection: close\r\n", "zz\r\n{}"), "HTTP/1.1 400 "),
        ("CONNECT edge:443 HTTP/1.1\r\nhost: edge\r\nconnection: close\r\n\r\n".to_owned(), "HTTP/1.1 404 "),
    ];
    for (bytes, expected) in cases {
        let answer = exchange(&iop, &bytes).await;
        assert!(answer.starts_with(expected), "{:?} got {answer:?}", &bytes[..bytes.len().min(80)]);
    }
    assert_serves(&iop).await;
    iop.shut_down().await;
}

#[tokio::test]
async fn a_body_shorter_than_declared_never_reaches_a_provider() {
    let engine = Engine::start();
    let iop = deploy(plan(&engine, 1)).await;
    for headers in ["content-length: 1000\r\n", "transfer-encoding: chunked\r\n"] {
        let mut connection = RawConnection::open(iop.http).await.expect("the edge listens");
        connection.send(post(headers, "20\r\n{\"model\":")).await.expect("sent");
        connection.finish().await.expect("closed");
        let end = tokio::time::timeout(DEADLINE, connection.read_to_end()).await;
        let answer = end.expect("the connection ends in time").expect("an orderly end");
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400 "), "{answer:?}");
    }
    assert_eq!(engine.look(|log| log.requests.len()), 0);
    assert_serves(&iop).await;
    iop.shut_down().await;
}

#[tokio::test]
async fn old_http_is_answered_whole_streams_too() {
    let engine = Engine::start();
    let script = Script::stream(3, Duration::ZERO);
    engine.set_script(script.clone());
    let iop = deploy(plan(&engine, 1)).await;
    for stream in [false, true] {
        let body = chat(stream).to_string();
        let request =
            format!("POST /v1/chat/completions HTTP/1.0\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        let answer = exchange(&iop, request).await;
        assert!(answer.starts_with("HTTP/1.0 200 OK\r\n"), "{answer}");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(!head.contains("transfer-encoding"), "HTTP/1.0 knows no chunks: {head}");
        assert!(if stream { body.ends_with("data: [DONE]\n\n") } else { body.ends_with('}') }, "{body}");
    }
    wait_for_rest(&iop).await;
    iop.shut_down().await;
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_their_order() {
    let engine = Engine::start();
    let iop = deploy(plan(&engine, 1)).await;
    let body = chat(false).to_string();
    let one = post(&format!("content-length: {}\r\n", body.len()), &body);
    let models = "GET /v1/models HTTP/1.1\r\nhost: edge\r\n\r\n";
    let wrong = post("content-length: 2\r\nconnection: close\r\n", "{}");
    let answer = exchange(&iop, format!("{one}{models}{one}{wrong}")).await;
    let statuses: Vec<&str> =
        answer.match_indices("HTTP/1.1 ").map(|(at, _)| &answer[at + 9..at + 12]).collect();
    assert_eq!(statuses, ["200", "200", "200", "400"], "{answer}");
    let at = |text: &str| answer.find(text).expect("each answer is there");
    assert!(
        at("chat.completion") < at("\"object\":\"list\"")
            && at("\"object\":\"list\"") < at("invalid_request")
    );
    wait_for_rest(&iop).await;
    iop.shut_down().await;
}

#[tokio::test]
async fn who_asks_before_sending_a_body_is_told_to_go_on_or_refused() {
    let engine = Engine::start();
    let iop = deploy(plan(&engine, 1)).await;
    let body = chat(false).to_string();
    let headers = format!("content-length: {}\r\nexpect: 100-continue\r\nconnection: close\r\n", body.len());
    let mut connection = RawConnection::open(iop.http).await.expect("the edge listens");
    connection.send(post(&headers, "")).await.expect("sent");
    assert_eq!(
        connection.read_through("\r\n\r\n").await.expect("an answer"),
        "HTTP/1.1 100 Continue\r\n\r\n"
    );
    connection.send(&body).await.expect("sent");
    let answer = connection.read_to_end().await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert_eq!(engine.request(0).header("expect"), "");
    let answer = exchange(&iop, post(&headers, "").replace("/v1/chat", "/v2/chat")).await;
    assert!(answer.starts_with("HTTP/1.1 404 "), "refused without asking for the body: {answer}");
    iop.shut_down().await;
}

#[tokio::test]
async fn a_preflight_needs_no_key_and_head_has_no_body() {
    let engine = Engine::start();
    let keys = serde_json::json!({"keys": [{"name": "alice", "key": "secret-key"}]});
    let iop = deploy(plan(&engine, 1).edge_value("/auth", keys)).await;
    let preflight = Call::new(hyper::Method::OPTIONS, "/v1/chat/completions")
        .header("origin", "https://chat.example.com")
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "authorization,content-type,x-stainless-os");
    let answer = send(iop.http, preflight).await.expect("an answer");
    assert_eq!((answer.status.as_u16(), answer.body.len()), (204, 0));
    assert_eq!(answer.header("access-control-allow-origin"), "*");
    assert_eq!(answer.header("access-control-allow-headers"), "authorization,content-type,x-stainless-os");
    assert!(answer.header("access-control-allow-methods").contains("POST"));
    let answer = send(iop.http, Call::get("/v1/models")).await.expect("an answer");
    assert_eq!(
        (answer.status.as_u16(), &answer.json()["error"]["code"]),
        (401, &Value::from("invalid_api_key"))
    );
    let head = Call::new(hyper::Method::HEAD, "/v1/models").header("authorization", "Bearer secret-key");
    let answer = send(iop.http, head).await.expect("an answer");
    assert_eq!((answer.status.as_u16(), answer.body.len()), (200, 0));
    iop.shut_down().await;
}
