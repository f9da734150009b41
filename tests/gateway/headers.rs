//! What is in the heads of answers: what the edge adds, what it keeps to itself, and when a client should come again.

use crate::lab::{DEADLINE, MODEL, chat, deploy, plan};
use iop_tests::engine::{Engine, Script};
use iop_tests::http::{Call, open, send};
use serde_json::json;

#[tokio::test]
async fn a_provider_cannot_speak_for_the_edges_address() {
    let engine = Engine::start();
    let own = [
        "set-cookie",
        "alt-svc",
        "strict-transport-security",
        "access-control-allow-credentials",
        "x-request-id",
    ];
    let script = own.iter().fold(Script::answer(), |script, name| script.header(name, "provider"));
    engine.set_script(
        script.header("x-kept", "as it is").header("access-control-allow-origin", "https://evil.example"),
    );
    let plan = plan(&engine, 1).edge_value("/http/cors_origins", json!(["https://chat.example.com"]));
    let iop = deploy(plan).await;
    let call = Call::chat(MODEL, false).header("origin", "https://evil.example");
    let answer = send(iop.http, call).await.expect("an answer");
    assert_eq!((answer.status.as_u16(), answer.header("x-kept")), (200, "as it is"));
    for name in own {
        assert_ne!(answer.header(name), "provider", "{name}");
    }
    assert_eq!(answer.header("access-control-allow-origin"), "");
    assert_eq!(answer.header("x-request-id").len(), 16, "the edge's own");
    iop.shut_down().await;
}

#[tokio::test]
async fn streams_ask_everybody_on_the_way_not_to_buffer() {
    let engine = Engine::start();
    let iop = deploy(plan(&engine, 1)).await;
    let stream = open(iop.http, Call::chat(MODEL, true)).await.expect("a stream");
    let header = |name: &str| stream.headers.get(name).and_then(|value| value.to_str().ok());
    assert_eq!(header("x-accel-buffering"), Some("no"));
    assert_eq!(header("cache-control"), Some("no-cache"));
    assert_eq!(header("content-type"), Some("text/event-stream"));
    drop(stream);
    iop.shut_down().await;
}

#[tokio::test]
async fn who_is_turned_away_for_want_of_room_is_told_when_to_come_again() {
    let engine = Engine::start();
    engine.hold();
    let plan = plan(&engine, 1).edge_value("/provider_pool/max_queue", json!(1));
    let iop = deploy(plan.edge_value("/provider_pool/queue_timeout_ms", json!(1500))).await;
    let running = tokio::spawn(open(iop.http, Call::chat(MODEL, true)));
    engine.wait_held(1, DEADLINE).await;
    let queued = tokio::spawn(send(iop.http, Call::post("/v1/messages", &chat(false))));
    iop_tests::deadline::wait_until_async("one request queued", DEADLINE, async || {
        let queue = iop.snapshot().await["queue"].take();
        if queue["length"] == 1 { Ok(()) } else { Err(queue) }
    })
    .await;
    let full = send(iop.http, Call::chat(MODEL, false)).await.expect("an answer");
    assert_eq!((full.status.as_u16(), &full.json()["error"]["code"]), (429, &json!("queue_full")));
    let late = queued.await.expect("no panic").expect("an answer");
    let error = late.json();
    assert_eq!(
        (late.status.as_u16(), &error["type"]),
        (503, &json!("error")),
        "in Anthropic's shape: {error}"
    );
    assert_eq!(error["error"]["type"], "overloaded_error");
    assert_eq!(error["request_id"], late.header("x-request-id"));
    for answer in [full, late] {
        assert_eq!((answer.header("retry-after-ms"), answer.header("retry-after")), ("1000", "1"));
        assert_eq!(answer.header("x-should-retry"), "", "the client's own rule is right");
    }
    engine.release_all();
    drop(running.await);
    iop.shut_down().await;
}
