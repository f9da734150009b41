//! OpenAI's own clients and LangChain, on the scripted engine and on llama.cpp.

use crate::clients::Client;
use crate::lab::{MODEL, assert_tunnelled, deploy, llama, scripted, wait_for_no_lease};
use crate::llama::Llama;
use crate::shapes;
use iop_tests::engine::{Engine, Script};
use serde_json::json;
use std::time::Duration;

/// Eight chunks, 50 ms apart.
fn stream() -> Script {
    Script::stream(8, Duration::from_millis(50))
}

/// Half of what the gaps take: far more than an answer that is held back would show.
const SPREAD: [&str; 2] = ["--min-spread-ms", "60"];

/// The control: what the client is content with here is what iop must not spoil.
#[tokio::test]
async fn the_python_client_takes_the_scripted_engine_for_a_real_server() {
    let engine = Engine::start();
    engine.queue_scripts([shapes::chat_call_chunks(), shapes::responses(), shapes::responses_stream()]);
    engine.set_script(stream());
    let checks = ["tools-stream", "responses", "responses-stream", "models", "chat", "stream", "embeddings"];
    let seen = Client::OpenAi.check(engine.address(), "scripted", &checks, &SPREAD).await;
    seen.assert_text(&["chat", "stream"], &stream().text());
    seen.assert_text(&["responses", "responses-stream"], shapes::TEXT);
    assert_eq!(seen.of("tools-stream")["calls"], shapes::calls());
}

#[tokio::test]
async fn the_python_client_is_served_by_the_scripted_engine() {
    let engine = Engine::start();
    let iop = deploy(scripted(&engine)).await;
    engine.queue_scripts([
        shapes::chat_calls(),
        Script::answer(),
        shapes::chat_call_chunks(),
        shapes::responses(),
        shapes::responses_stream(),
    ]);
    engine.set_script(stream());
    let checks = [
        "tools",
        "tools-stream",
        "responses",
        "responses-stream",
        "models",
        "chat",
        "stream",
        "completion",
        "completion-stream",
        "embeddings",
    ];
    let seen = Client::OpenAi.check(iop.http, MODEL, &checks, &SPREAD).await;
    seen.assert_text(&["chat", "stream", "completion", "completion-stream"], &stream().text());
    assert_eq!((&seen.of("stream")["chunks"], &seen.of("stream")["tokens"]), (&json!(8), &json!(8)));
    seen.assert_text(&["responses", "responses-stream"], shapes::TEXT);
    let text = Script::answer().text();
    assert_eq!(*seen.of("tools"), json!({"finish": "tool_calls", "calls": shapes::calls(), "text": text}));
    let streamed = json!({"finish": "tool_calls", "calls": shapes::calls(), "pieces": shapes::CHUNK_INDICES});
    assert_eq!(*seen.of("tools-stream"), streamed);
    assert_eq!(*seen.of("models"), json!([MODEL]));

    let result = engine.request(1).json()["messages"][2].take();
    assert_eq!(result, json!({"role": "tool", "tool_call_id": "call_a", "content": "sunny"}));
    assert_tunnelled(&engine, &iop, 11).await;
    iop.shut_down().await;
}

#[tokio::test]
async fn the_node_client_is_served_by_the_scripted_engine() {
    let engine = Engine::start();
    let iop = deploy(scripted(&engine)).await;
    engine.queue_scripts([
        shapes::chat_calls(),
        shapes::chat_call_chunks(),
        shapes::responses(),
        shapes::responses_stream(),
        shapes::packed_embeddings(),
    ]);
    engine.set_script(stream());
    let checks = [
        "tools",
        "tools-stream",
        "responses",
        "responses-stream",
        "embeddings",
        "models",
        "chat",
        "stream",
        "completion",
    ];
    let seen = Client::OpenAiNode.check(iop.http, MODEL, &checks, &[]).await;
    seen.assert_text(&["chat", "stream", "completion"], &stream().text());
    assert_eq!((&seen.of("stream")["chunks"], &seen.of("stream")["tokens"]), (&json!(8), &json!(8)));
    seen.assert_text(&["responses", "responses-stream"], shapes::TEXT);
    for check in ["tools", "tools-stream"] {
        assert_eq!(*seen.of(check), json!({"finish": "tool_calls", "calls": shapes::calls()}), "{check}");
    }
    assert_eq!(*seen.of("models"), json!([MODEL]));
    assert_eq!(*seen.of("embeddings"), json!({"dimensions": [2, 2]}));
    assert_tunnelled(&engine, &iop, 8).await;
    iop.shut_down().await;
}

#[tokio::test]
async fn langchain_is_served_by_the_scripted_engine() {
    let engine = Engine::start();
    let iop = deploy(scripted(&engine)).await;
    engine.queue_scripts([shapes::chat_calls(), shapes::chat_call_chunks(), shapes::responses()]);
    engine.set_script(stream());
    let checks = ["tools", "tools-stream", "responses", "chat", "stream", "embeddings"];
    let seen = Client::LangChain.check(iop.http, MODEL, &checks, &[]).await;
    seen.assert_text(&["chat", "stream"], &stream().text());
    assert_eq!(seen.of("stream")["chunks"], 8);
    seen.assert_text(&["responses"], shapes::TEXT);
    let calls = ["Köln", "a \"b\""].map(|city| json!({"name": "get_weather", "args": {"city": city}}));
    for check in ["tools", "tools-stream"] {
        assert_eq!(*seen.of(check), json!(calls), "{check}");
    }
    assert_eq!(*seen.of("embeddings"), json!({"dimensions": [8, 8]}));
    assert_tunnelled(&engine, &iop, 6).await;
    iop.shut_down().await;
}

#[tokio::test]
async fn openais_clients_and_langchain_are_served_by_llama_cpp() {
    let (text, embedder) = (Llama::start().await, Llama::embedder().await);
    let iop = deploy(llama(&text, &embedder)).await;
    let options = ["--tokens", "32", "--embeddings-model", "tiny-embedding"];
    let cases = [
        (
            Client::OpenAi,
            &["chat", "stream", "completion", "completion-stream", "responses", "responses-stream"][..],
        ),
        (Client::OpenAiNode, &["chat", "stream", "completion", "responses", "responses-stream"]),
        (Client::LangChain, &["chat", "stream", "responses"]),
    ];
    for (client, checks) in cases {
        let seen = client.check(iop.http, "tiny", &[checks, &["embeddings"]].concat(), &options).await;
        seen.assert_some_text(checks);
        let dimensions = &seen.of("embeddings")["dimensions"];
        assert!([json!(64), json!([64, 64])].contains(dimensions), "{client:?}: {dimensions}");
        if client != Client::LangChain {
            assert_eq!(seen.of("responses-stream")["first"], "response.created", "{client:?}");
            assert_eq!(seen.of("responses-stream")["last"], "response.completed", "{client:?}");
        }
    }

    let exact = ["--tokens", "32", "--ignore-eos"];
    let seen = Client::OpenAi.check(iop.http, "tiny", &["models", "chat", "stream"], &exact).await;
    assert_eq!(*seen.of("models"), json!(["tiny", "tiny-embedding"]));
    assert_eq!((&seen.of("chat")["tokens"], &seen.of("stream")["tokens"]), (&json!(32), &json!(32)));
    text.wait_for_busy_slots(0).await;
    embedder.wait_for_busy_slots(0).await;
    wait_for_no_lease(&iop).await;
    iop.shut_down().await;
}

#[tokio::test]
async fn llama_cpp_answers_in_the_schema_that_the_client_asks_for() {
    let (text, embedder) = (Llama::start().await, Llama::embedder().await);
    let iop = deploy(llama(&text, &embedder)).await;
    let seen = Client::OpenAi.check(iop.http, "tiny", &["json-schema"], &["--tokens", "100"]).await;
    let answer = seen.of("json-schema").as_str().expect("text");
    let answer: serde_json::Value = serde_json::from_str(answer).expect("the text is JSON");
    assert!(answer["ok"].is_boolean(), "{answer}");
    assert_eq!(answer.as_object().map(serde_json::Map::len), Some(1), "{answer}");
    iop.shut_down().await;
}
