//! HTTP/2 in cleartext, spoken from the first byte, beside HTTP/1.1 on the same port.

use crate::lab::{DEADLINE, MODEL, chat, connect, deploy, http2, plan, request, text, wait_for_rest};
use http_body_util::BodyExt;
use iop_tests::engine::{Engine, Script};
use iop_tests::http::{Call, send};
use serde_json::json;
use std::time::Duration;

const WINDOW: u32 = 1 << 20;

#[tokio::test]
async fn both_versions_are_spoken_on_one_port() {
    let engine = Engine::start();
    let script = Script::stream(3, Duration::ZERO);
    engine.set_script(script.clone());
    let iop = deploy(plan(&engine, 4)).await;
    let mut sender = http2(connect(iop.http).await, WINDOW).await;
    let answer = request(&mut sender, "POST", "/v1/chat/completions", chat(false).to_string()).await;
    assert_eq!(answer.status(), 200);
    assert!(text(answer).await.contains(&script.text()));
    let answer = request(&mut sender, "POST", "/v1/chat/completions", chat(true).to_string()).await;
    assert!(text(answer).await.ends_with("data: [DONE]\n\n"));
    let head = request(&mut sender, "HEAD", "/v1/models", "").await;
    assert_eq!((head.status().as_u16(), text(head).await.len()), (200, 0));
    let options = request(&mut sender, "OPTIONS", "/v1/chat/completions", "").await;
    assert_eq!(options.status(), 204);
    let wrong = request(&mut sender, "POST", "/v1/chat/completions", "{}").await;
    assert_eq!(wrong.status(), 400);
    let large = request(&mut sender, "POST", "/v1/chat/completions", vec![b' '; 65 << 20]).await;
    assert_eq!(large.status(), 413);
    assert!(text(large).await.contains("(http.max_body_bytes)"));
    assert_eq!(send(iop.http, Call::chat(MODEL, false)).await.expect("an answer").status, 200);
    wait_for_rest(&iop).await;
    iop.shut_down().await;
}

// [lease-lifecycle]
#[tokio::test]
async fn a_stream_that_is_reset_cancels_its_run_and_leaves_the_others_alone() {
    let engine = Engine::start();
    engine.hold();
    let iop = deploy(plan(&engine, 2)).await;
    let sender = http2(connect(iop.http).await, WINDOW).await;
    let mut given_up = sender.clone();
    let body = chat(true).to_string();
    let task =
        tokio::spawn(async move { request(&mut given_up, "POST", "/v1/chat/completions", body).await });
    engine.wait_held(1, DEADLINE).await;
    let (mut kept, body) = (sender.clone(), chat(true).to_string());
    let other = tokio::spawn(async move { request(&mut kept, "POST", "/v1/chat/completions", body).await });
    engine.wait_held(2, DEADLINE).await;
    task.abort();
    engine.wait_closed(0, DEADLINE).await;
    engine.release_all();
    let answer = other.await.expect("no panic");
    assert!(text(answer).await.ends_with("data: [DONE]\n\n"));
    wait_for_rest(&iop).await;
    iop.shut_down().await;
}

#[tokio::test]
async fn a_connection_whose_streams_have_ended_or_were_reset_makes_room_for_a_newcomer() {
    let engine = Engine::start();
    let iop = deploy(plan(&engine, 1).edge_value("/http/max_connections", json!(1))).await;
    for is_reset in [false, true] {
        let mut sender = http2(connect(iop.http).await, WINDOW).await;
        if is_reset {
            engine.hold();
            let (mut given_up, body) = (sender.clone(), chat(true).to_string());
            let task =
                tokio::spawn(
                    async move { request(&mut given_up, "POST", "/v1/chat/completions", body).await },
                );
            engine.wait_held(1, DEADLINE).await;
            task.abort();
            engine.wait_closed(1, DEADLINE).await;
        } else {
            let answer = request(&mut sender, "POST", "/v1/chat/completions", chat(true).to_string()).await;
            assert!(text(answer).await.ends_with("data: [DONE]\n\n"));
        }
        assert!(!sender.is_closed());
        assert_eq!(send(iop.http, Call::get("/v1/models")).await.expect("a place").status, 200);
    }
    iop.shut_down().await;
}

#[tokio::test]
async fn a_large_answer_over_http2_arrives_whole() {
    let engine = Engine::start();
    let body: Vec<u8> = (0..3_000_000u32).map(|number| (number >> 4) as u8).collect();
    engine.set_script(Script::body(body.clone()));
    let iop = deploy(plan(&engine, 1)).await;
    let mut sender = http2(connect(iop.http).await, 64 << 10).await;
    let answer = request(&mut sender, "POST", "/v1/audio/speech", chat(false).to_string()).await;
    assert_eq!(answer.headers()["content-length"], body.len().to_string());
    let received = answer.into_body().collect().await.expect("a clean end").to_bytes();
    assert!(received == body, "byte for byte");
    iop.shut_down().await;
}
