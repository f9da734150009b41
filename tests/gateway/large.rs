//! Large bodies: images as base64 pass unchanged, and the default limit is named when it is passed.

use crate::lab::{MODEL, UPSTREAM, deploy, plan};
use bytes::Bytes;
use iop_tests::engine::{Engine, Script};
use iop_tests::http::{Call, send};
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn an_image_of_20_mb_in_base64_and_an_answer_as_large_pass_unchanged() {
    let engine = Engine::start();
    let answer: Bytes = (0..20 << 20).map(|number: u32| (number >> 3) as u8).collect::<Vec<u8>>().into();
    engine.set_script(Script::body(answer.clone()));
    let iop = deploy(plan(&engine, 1)).await;
    let image = format!("data:image/png;base64,{}", "iVBORw0KGgo+/09x".repeat((20 << 20) / 16));
    let body = |model: &str| {
        json!({"messages": [{"role": "user", "content": [{"type": "text", "text": "what is this?"},
            {"type": "image_url", "image_url": {"url": image}}]}], "model": model})
    };
    let received = send(iop.http, Call::post("/v1/chat/completions", &body(MODEL))).await.expect("an answer");
    assert_eq!(received.status, 200);
    assert!(received.body == answer, "the answer is the provider's, byte for byte");
    assert!(engine.request(0).body == body(UPSTREAM).to_string().as_bytes(), "the request is the client's");
    iop.shut_down().await;
}

#[tokio::test]
async fn a_body_over_64_mib_is_answered_413_though_the_client_sends_all_of_it_first() {
    let engine = Engine::start();
    let iop = deploy(plan(&engine, 1)).await;
    let piece = Bytes::from(vec![b' '; 1 << 20]);
    for chunked in [false, true] {
        let call = Call::post("/v1/chat/completions", &json!(null));
        let call = call.pieces(vec![piece.clone(); 65], Duration::ZERO);
        let call = if chunked { call.chunked() } else { call };
        let answer = send(iop.http, call).await.expect("the refusal, not a broken connection");
        assert_eq!((answer.status.as_u16(), answer.header("x-should-retry")), (413, "false"));
        let message = answer.json()["error"]["message"].take();
        assert_eq!(message, "the request body is larger than 67108864 bytes (http.max_body_bytes)");
    }
    assert_eq!(engine.look(|log| log.requests.len()), 0);
    iop.shut_down().await;
}
