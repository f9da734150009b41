//! What reaches the engine and what comes back: bytes, headers, keys, connections.

use super::lab::{CHAT, DEADLINE, Lab, Outcome, STREAM, chunk, openai, tunnel, within};
use bytes::Bytes;
use iop_tests::engine::{Engine, Reply, Script};
use iop_transport::wire::{RunReply, RunRequest, TunnelRequest};
use std::time::Duration;

fn header(name: &str, value: &'static str) -> (String, Bytes) {
    (name.to_owned(), Bytes::from_static(value.as_bytes()))
}

#[tokio::test]
async fn bytes_and_headers_pass_unchanged_in_both_directions() {
    let engine = Engine::start();
    let lab = Lab::start([openai("llama", &engine.endpoint(), 1)]).await;
    let answer: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    engine.set_script(
        Script::body(answer.clone())
            .header("x-engine", "Kept As Is")
            .header("set-cookie", "a=1")
            .header("set-cookie", "b=2")
            .header("keep-alive", "timeout=5"),
    );
    let headers = vec![header("content-type", "application/json"), header("x-request-id", "r-1")];
    let request = TunnelRequest { method: "POST".into(), path: "/v1/embeddings?a=%20b".into(), headers };
    let sent = br#"{"input": "spaces  and \u00e9 stay"}"#;
    let (_, run) = lab.open("llama", RunRequest::Tunnel(request), sent).await;
    let Outcome::Answer { status, headers, body } = Outcome::of(run).await else {
        panic!("an answer was expected")
    };

    assert_eq!((status, body == answer), (200, true));
    let values = |wanted: &str| -> Vec<Bytes> {
        headers.iter().filter(|(name, _)| name == wanted).map(|(_, value)| value.clone()).collect()
    };
    assert_eq!(values("x-engine"), ["Kept As Is"]);
    assert_eq!(values("set-cookie"), ["a=1", "b=2"]);
    assert_eq!(values("content-length"), ["300000"]);
    assert!(values("keep-alive").is_empty() && values("transfer-encoding").is_empty(), "{headers:?}");

    let received = engine.request(0);
    assert_eq!((received.method.as_str(), received.path.as_str()), ("POST", "/v1/embeddings?a=%20b"));
    assert_eq!(received.body, sent);
    assert_eq!(received.header("x-request-id"), "r-1");
    assert_eq!(received.header("content-length"), sent.len().to_string());
    assert_eq!(received.header("host"), engine.address().to_string());
}

#[tokio::test]
async fn the_engine_gets_its_own_key_and_never_the_clients() {
    let engine = Engine::start();
    let mut settings = openai("llama", &engine.endpoint(), 1);
    settings.api_key_env = Some("ENGINE_KEY".into());
    settings.headers = vec![("x-tenant".into(), "home".into())];
    let lab = Lab::start([settings]).await;
    let headers = vec![
        header("authorization", "Bearer the-clients-key"),
        header("x-api-key", "the-clients-key"),
        header("proxy-authorization", "Basic the-clients-key"),
        header("host", "edge.example.com"),
        header("x-tenant", "forged"),
    ];
    let request = TunnelRequest { method: "POST".into(), path: "/v1/chat/completions".into(), headers };
    let (_, run) = lab.open("llama", RunRequest::Tunnel(request), CHAT).await;
    assert_eq!(Outcome::of(run).await.answer().0, 200);

    let received = engine.request(0);
    assert_eq!(received.header("authorization"), "Bearer the-engines-key");
    assert_eq!(received.header("x-tenant"), "home");
    assert_eq!(received.header("host"), engine.address().to_string());
    assert!(!format!("{:?}", received.headers).contains("the-clients-key"), "{:?}", received.headers);
}

#[tokio::test]
async fn an_endpoint_given_with_v1_is_asked_for_v1_once() {
    let engine = Engine::start();
    let lab = Lab::start([openai("llama", &format!("{}/v1/", engine.endpoint()), 1)]).await;
    lab.chat("llama").await.answer();
    assert_eq!(engine.request(0).path, "/v1/chat/completions");
}

#[tokio::test]
async fn a_body_far_larger_than_any_buffer_arrives_whole() {
    let engine = Engine::start();
    let lab = Lab::start([openai("llama", &engine.endpoint(), 1)]).await;
    let sent: Vec<u8> = (0u32..).flat_map(u32::to_le_bytes).take((8 << 20) + 3).collect();
    engine.set_script(Script::body("ok"));
    for number in 0..2 {
        let (_, run) = lab.open("llama", tunnel("POST", "/v1/audio"), &sent).await;
        assert_eq!(Outcome::of(run).await.answer(), (200, b"ok".to_vec()));
        let received = engine.request(number);
        assert!(received.body == sent, "{} bytes arrived", received.body.len());
    }
}

#[tokio::test]
async fn a_get_has_no_body_and_no_length() {
    let engine = Engine::start();
    let lab = Lab::start([openai("llama", &engine.endpoint(), 1)]).await;
    let (_, run) = lab.open("llama", tunnel("GET", "/v1/models"), b"").await;
    assert_eq!(Outcome::of(run).await.answer().0, 200);
    assert_eq!(engine.request(0).header("content-length"), "");
}

#[tokio::test]
async fn each_piece_of_a_stream_is_passed_on_when_it_comes() {
    let engine = Engine::start();
    let lab = Lab::start([openai("llama", &engine.endpoint(), 1)]).await;
    let pieces = vec![Bytes::from_static(b"first"), Bytes::from_static(b"second")];
    let reply = Reply::Http { status: 200.try_into().expect("a status"), pieces, sized: false };
    engine.set_script(Script { reply, ..Script::answer() }.cut(1, iop_tests::engine::Then::Hold));
    let (_, mut run) = lab.open("llama", tunnel("POST", "/v1/chat/completions"), STREAM).await;
    let reply = within(run.reply()).await.expect("a head");
    assert!(matches!(reply, RunReply::Response { status: 200, .. }), "{reply:?}");
    assert_eq!(chunk(&mut run).await.expect("bytes").as_deref(), Some(&b"first"[..]));
    engine.wait_held(1, DEADLINE).await;
    engine.release_one();
    assert_eq!(chunk(&mut run).await.expect("bytes").as_deref(), Some(&b"second"[..]));
    assert_eq!(chunk(&mut run).await.expect("a clean end"), None);
}

#[tokio::test]
async fn an_error_that_the_engine_answers_is_an_answer() {
    let engine = Engine::start();
    let lab = Lab::start([openai("llama", &engine.endpoint(), 1)]).await;
    for status in [400, 401, 404, 429, 500, 503] {
        engine.set_script(Script::status(status));
        let (found, body) = lab.chat("llama").await.answer();
        assert_eq!(found, status);
        assert!(String::from_utf8_lossy(&body).contains("scripted"), "{status} comes with its body");
    }
}

#[tokio::test]
async fn one_connection_serves_many_runs() {
    let engine = Engine::start();
    let lab = Lab::start([openai("llama", &engine.endpoint(), 2)]).await;
    for _ in 0..20 {
        assert_eq!(lab.chat("llama").await.answer().0, 200);
        let (_, run) = lab.open("llama", tunnel("POST", "/v1/chat/completions"), STREAM).await;
        assert_eq!(Outcome::of(run).await.answer().0, 200);
    }
    assert_eq!(engine.look(|log| log.connections_opened), 1);
}

#[tokio::test]
async fn a_slow_edge_slows_the_engine_down_and_loses_nothing() {
    let engine = Engine::start();
    let lab = Lab::start([openai("llama", &engine.endpoint(), 1)]).await;
    let answer: Vec<u8> = (0u32..).flat_map(u32::to_le_bytes).take(16 << 20).collect();
    engine.set_script(Script::body(answer.clone()));
    let (_, mut run) = lab.open("llama", tunnel("POST", "/v1/chat/completions"), CHAT).await;
    within(run.reply()).await.expect("a head");
    let mut read = Vec::new();
    while let Some(bytes) = chunk(&mut run).await.expect("the whole answer") {
        if read.is_empty() {
            // Time in which a node that takes everything into memory would have it.
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert!(engine.request(0).answered.is_none(), "16 MiB wait in the engine");
        }
        read.extend_from_slice(&bytes);
    }
    assert!(read == answer, "{} bytes arrived", read.len());
}
