//! Real clients on `iop demo`, whose built-in provider is run normalized: the edge itself writes the answers.

use crate::clients::Client;
use crate::lab::{DEADLINE, IOP};
use iop_tests::process::{Process, Program, Signal};
use serde_json::json;
use std::net::SocketAddr;

async fn start() -> (Process, SocketAddr) {
    let args = ["demo", "--http", ":0", "--admin", ":0", "--quic", ":0"];
    let mut demo = Program::new(IOP).named("demo").args(args).start();
    let http = demo.wait_for_ready(DEADLINE).await["http"].parse().expect("an address");
    (demo, http)
}

#[tokio::test]
async fn openais_clients_and_langchain_are_served_by_the_demo() {
    let (mut demo, http) = start().await;
    let said = ["hello"; 16].join(" ");
    let cases = [
        (Client::OpenAi, &["chat", "stream", "completion", "completion-stream"][..]),
        (Client::OpenAiNode, &["chat", "stream", "completion"]),
        (Client::LangChain, &["chat", "stream"]),
    ];
    for (client, checks) in cases {
        let seen = client.check(http, "demo", &[checks, &["embeddings"]].concat(), &[]).await;
        seen.assert_text(checks, &said);
        assert_eq!((&seen.of("chat")["tokens"], &seen.of("stream")["chunks"]), (&json!(16), &json!(16)));
        if client != Client::LangChain {
            assert_eq!(seen.of("stream")["tokens"], 16, "usage was asked for");
        }
    }
    let seen =
        Client::OpenAi.check(http, "demo-fast", &["models", "stream"], &["--min-spread-ms", "100"]).await;
    assert_eq!(*seen.of("models"), json!(["demo", "demo-fast"]));
    demo.signal(Signal::TERM);
    assert_eq!(demo.wait_for_exit(DEADLINE).await.code(), Some(0));
}

#[tokio::test]
async fn a_path_that_the_demo_cannot_serve_is_an_error_that_the_client_knows() {
    let (_demo, http) = start().await;
    let seen = Client::Anthropic.check(http, "demo", &["error"], &[]).await;
    let error = seen.of("error");
    assert_eq!((&error["class"], &error["type"]), (&json!("NotFoundError"), &json!("not_found_error")));
}
