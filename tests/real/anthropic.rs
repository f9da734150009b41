//! Anthropic's own client on `/v1/messages`, with llama.cpp and with the scripted engine behind it.

use crate::clients::Client;
use crate::lab::{MODEL, assert_tunnelled, deploy, llama, scripted, wait_for_no_lease};
use crate::llama::Llama;
use crate::shapes;
use iop_tests::engine::{Engine, Then};
use serde_json::{Value, json};

#[tokio::test]
async fn anthropics_client_is_served_by_llama_cpp() {
    let (text, embedder) = (Llama::start().await, Llama::embedder().await);
    let iop = deploy(llama(&text, &embedder)).await;
    let checks = ["message", "stream", "count-tokens"];
    let seen = Client::Anthropic.check(iop.http, "tiny", &checks, &["--tokens", "32"]).await;
    seen.assert_some_text(&["message", "stream"]);
    assert!(seen.of("count-tokens").as_u64().is_some_and(|tokens| tokens > 1), "{seen:?}");
    text.wait_for_busy_slots(0).await;
    wait_for_no_lease(&iop).await;
    iop.shut_down().await;
}

#[tokio::test]
async fn anthropics_client_is_served_by_the_scripted_engine() {
    let engine = Engine::start();
    let iop = deploy(scripted(&engine)).await;
    engine.queue_scripts([shapes::messages(), shapes::messages_stream(), shapes::messages_call()]);
    let seen = Client::Anthropic.check(iop.http, MODEL, &["message", "stream", "tools-stream"], &[]).await;
    seen.assert_text(&["message", "stream"], shapes::TEXT);
    assert_eq!(seen.of("stream")["chunks"], 4);
    let calls = json!([{"name": "get_weather", "input": {"city": "Köln"}}]);
    assert_eq!(*seen.of("tools-stream"), json!({"calls": calls, "stop": "tool_use"}));
    assert_tunnelled(&engine, &iop, 3).await;
    iop.shut_down().await;
}

#[tokio::test]
async fn anthropics_client_knows_the_edges_errors_and_a_stream_that_breaks_off() {
    let engine = Engine::start();
    let key = json!({"keys": [{"name": "alice", "key": "sk-of-alice"}]});
    let iop = deploy(scripted(&engine).edge_value("/auth", key)).await;
    let seen = Client::Anthropic.check(iop.http, MODEL, &["error"], &[]).await;
    let error = seen.of("error");
    assert_eq!((&error["class"], &error["status"]), (&json!("AuthenticationError"), &json!(401)));
    assert!(error["message"].as_str().expect("text").contains("not one of this edge's"), "{error}");

    let key = ["--api-key", "sk-of-alice"];
    let seen = Client::Anthropic.check(iop.http, "no-such-model", &["error"], &key).await;
    let error = seen.of("error");
    assert_eq!((&error["class"], &error["type"]), (&json!("NotFoundError"), &json!("not_found_error")));

    // Both beginnings and two pieces of text.
    engine.queue_scripts([shapes::messages_stream().cut(4, Then::Close)]);
    let seen = Client::Anthropic.check(iop.http, MODEL, &["broken-stream"], &key).await;
    let error = seen.of("broken-stream");
    assert_eq!((&error["class"], &error["type"]), (&json!("APIStatusError"), &json!("api_error")), "{error}");
    // The last piece before the break may go with it.
    assert!(["Grü", "Grüße"].map(Value::from).contains(&error["text"]), "{error}");
    assert_tunnelled(&engine, &iop, 1).await;
    iop.shut_down().await;
}
