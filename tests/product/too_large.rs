//! Bodies over `http.max_body_bytes`: refused as early as it shows, and the connection ends instead of hanging.

use crate::lab::{DEADLINE, deploy, plan};
use iop_tests::deployment::Deployment;
use iop_tests::engine::Engine;
use iop_tests::http::{Call, RawConnection, send};
use serde_json::{Value, json};
use std::time::Duration;

const LIMIT: usize = 1024;

async fn start(engine: &Engine) -> Deployment {
    deploy(plan(engine, 1).edge_value("/http/max_body_bytes", json!(LIMIT))).await
}

/// A good body of exactly this many bytes.
fn body(bytes: usize) -> String {
    let frame = json!({"model": "ornith:35b", "prompt": ""}).to_string().len();
    json!({"model": "ornith:35b", "prompt": "x".repeat(bytes - frame)}).to_string()
}

fn post(body: String) -> Call {
    Call::post("/v1/completions", &Value::Null).pieces([body], Duration::ZERO)
}

/// Sends this on a bare connection, reads to the connection's end, and passes when that was the refusal.
async fn assert_refused_and_closed(iop: &Deployment, framing: &str, sent: &[u8]) {
    let mut connection = RawConnection::open(iop.http).await.expect("the edge listens");
    let head = format!("POST /v1/completions HTTP/1.1\r\nhost: edge\r\n{framing}\r\n\r\n");
    connection.send(head).await.expect("sent");
    connection.send(sent).await.expect("sent");
    // The client waits and sends nothing more: only the edge can end this.
    let answer = tokio::time::timeout(DEADLINE, connection.read_to_end()).await;
    let answer = answer.expect("the connection is closed").expect("with an orderly end");
    assert!(answer.starts_with("HTTP/1.1 413 Payload Too Large\r\n"), "{answer}");
    assert!(answer.contains("\r\nx-should-retry: false\r\n"), "{answer}");
    assert!(answer.contains("\"code\":\"request_too_large\""), "{answer}");
    assert!(answer.contains("larger than 1024 bytes (http.max_body_bytes)"), "{answer}");
}

#[tokio::test]
async fn a_declared_length_over_the_limit_is_refused_before_any_of_the_body_comes() {
    let engine = Engine::start();
    let iop = start(&engine).await;
    for bytes in [LIMIT as u64 + 1, 1 << 40] {
        assert_refused_and_closed(&iop, &format!("content-length: {bytes}"), b"").await;
    }
    let asked = "content-length: 1025\r\nexpect: 100-continue";
    assert_refused_and_closed(&iop, asked, b"").await;
    assert_eq!(engine.look(|log| log.requests.len()), 0);
    iop.shut_down().await;
}

#[tokio::test]
async fn a_chunked_body_is_refused_when_it_passes_the_limit_whether_or_not_it_ends() {
    let engine = Engine::start();
    let iop = start(&engine).await;
    let chunk = format!("{:x}\r\n{}\r\n", LIMIT + 1, " ".repeat(LIMIT + 1));
    assert_refused_and_closed(&iop, "transfer-encoding: chunked", chunk.as_bytes()).await;
    let halves = format!("{0:x}\r\n{1}\r\n{0:x}\r\n{1}\r\n", LIMIT, " ".repeat(LIMIT));
    assert_refused_and_closed(&iop, "transfer-encoding: chunked", halves.as_bytes()).await;
    assert_eq!(engine.look(|log| log.requests.len()), 0);
    iop.shut_down().await;
}

/// Whoever closes a connection while bytes still come in resets it, and many clients then see that instead of the answer.
#[tokio::test]
async fn a_client_that_sends_all_of_its_body_before_it_reads_gets_the_refusal_too() {
    let engine = Engine::start();
    let iop = start(&engine).await;
    let bytes = 4 << 20;
    let plain = " ".repeat(bytes);
    let chunked = format!("{bytes:x}\r\n{plain}\r\n0\r\n\r\n");
    assert_refused_and_closed(
        &iop,
        &format!("content-length: {bytes}\r\nconnection: close"),
        plain.as_bytes(),
    )
    .await;
    assert_refused_and_closed(&iop, "transfer-encoding: chunked\r\nconnection: close", chunked.as_bytes())
        .await;
    iop.shut_down().await;
}

#[tokio::test]
async fn the_limit_is_exact_for_declared_and_for_chunked_bodies() {
    let engine = Engine::start();
    let iop = start(&engine).await;
    for chunked in [false, true] {
        for (bytes, status) in [(LIMIT, 200), (LIMIT + 1, 413)] {
            let call = post(body(bytes));
            let call = if chunked { call.chunked() } else { call };
            let answer = send(iop.http, call).await.expect("the edge answers");
            assert_eq!(answer.status.as_u16(), status, "{bytes} bytes: {answer:?}");
        }
    }
    assert_eq!(engine.look(|log| log.requests.len()), 2);
    let leases = iop.snapshot().await["leases"].take();
    assert_eq!(leases["acquired_total"], 2, "what is refused for its size never asks for a lease");
    iop.shut_down().await;
}
