//! Engines that fail, requests that cannot be run, and what the edge is told.

use super::lab::{CHAT, DEADLINE, Lab, Outcome, STREAM, chunk, openai, tunnel, within};
use bytes::Bytes;
use iop_tests::engine::{Engine, Script, Then};
use iop_transport::codes::StreamCode;
use iop_transport::tunnel::RunLost;
use iop_transport::wire::{ProviderSettings, RefusalReason, RunRequest, TunnelRequest};

fn reset(code: StreamCode) -> RunLost {
    RunLost::Reset { code: Some(code) }
}

#[tokio::test]
async fn an_engine_that_is_not_there_is_unreachable_and_named() {
    let engine = Engine::start();
    let endpoint = engine.endpoint();
    let lab = Lab::start([openai("llama", &endpoint, 1)]).await;
    assert_eq!(lab.chat("llama").await.answer().0, 200);
    engine.crash();
    for _ in 0..3 {
        let refusal = lab.chat("llama").await.refusal();
        assert_eq!(refusal.reason, RefusalReason::Unreachable);
        assert_eq!(refusal.detail, format!("{endpoint} refused the connection"));
    }
    // The connection of before is known to be dead: nothing of the old engine is in the way of the new one.
    engine.listen_again();
    assert_eq!(lab.chat("llama").await.answer().0, 200);
}

#[tokio::test]
async fn localhost_reaches_a_server_on_either_loopback_address() {
    let engine = Engine::start();
    let lab =
        Lab::start([openai("llama", &format!("http://localhost:{}", engine.address().port()), 1)]).await;
    assert_eq!(lab.chat("llama").await.answer().0, 200);
}

#[tokio::test]
async fn an_answer_that_never_begins_well_is_a_bad_answer() {
    let silent = "closed the connection without an answer";
    let strange = "answered with something that is not usable HTTP";
    let cases = [
        (Script::no_answer(), silent),
        (Script::silence().cut(0, Then::Reset), silent),
        (Script::raw("HTTP/1.1 200 OK\r\ncontent-le"), silent),
        (Script::garbage(), strange),
        (
            Script::raw("HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"),
            strange,
        ),
        (Script::raw("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab"), strange),
    ];
    for (script, detail) in cases {
        let engine = Engine::start();
        let lab = Lab::start([openai("llama", &engine.endpoint(), 1)]).await;
        engine.queue_scripts([script]);
        let refusal = lab.chat("llama").await.refusal();
        assert_eq!(refusal.reason, RefusalReason::BadAnswer, "{refusal:?}");
        assert!(refusal.detail.starts_with(&format!("{} {detail}", engine.endpoint())), "{refusal:?}");
        assert_eq!(lab.chat("llama").await.answer().0, 200);
        assert_eq!(engine.look(|log| log.requests.len()), 2, "it was asked once, and once more now");
    }
}

#[tokio::test]
async fn a_kept_connection_that_dies_under_a_request_is_replaced_once() {
    let engine = Engine::start();
    let lab = Lab::start([openai("llama", &engine.endpoint(), 1)]).await;
    assert_eq!(lab.chat("llama").await.answer().0, 200);
    engine.queue_scripts([Script::no_answer()]);
    assert_eq!(lab.chat("llama").await.answer().0, 200);
    assert_eq!(engine.look(|log| (log.requests.len(), log.connections_opened)), (3, 2));
    engine.queue_scripts([Script::no_answer(), Script::no_answer()]);
    assert_eq!(lab.chat("llama").await.refusal().reason, RefusalReason::BadAnswer);
    assert_eq!(engine.look(|log| log.requests.len()), 5);
}

#[tokio::test]
async fn a_head_too_large_for_the_wire_is_a_bad_answer() {
    let engine = Engine::start();
    let lab = Lab::start([openai("llama", &engine.endpoint(), 1)]).await;
    engine.queue_scripts([Script::body("ok").header("x-large", &"x".repeat(70_000))]);
    let refusal = lab.chat("llama").await.refusal();
    assert_eq!(refusal.reason, RefusalReason::BadAnswer, "{refusal:?}");
    assert_eq!(lab.chat("llama").await.answer().0, 200);
}

#[tokio::test]
async fn an_answer_that_breaks_off_ends_with_a_reset_and_never_looks_complete() {
    let engine = Engine::start();
    let lab = Lab::start([openai("llama", &engine.endpoint(), 1)]).await;
    for body in [CHAT, STREAM] {
        for then in [Then::Close, Then::Reset] {
            engine.queue_scripts([Script::answer().cut(1, then)]);
            let (_, run) = lab.open("llama", tunnel("POST", "/v1/chat/completions"), body).await;
            assert_eq!(Outcome::of(run).await.lost(), reset(StreamCode::UpstreamAborted), "{then:?}");
        }
    }
    // A server that says less than its length, and one that breaks its chunks.
    for raw in [
        "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nabcde\r\nzz\r\n",
    ] {
        engine.queue_scripts([Script::raw(raw)]);
        assert_eq!(lab.chat("llama").await.lost(), reset(StreamCode::UpstreamAborted), "{raw}");
    }
    assert_eq!(lab.chat("llama").await.answer().0, 200);
}

#[tokio::test]
async fn a_silent_engine_that_dies_is_noticed_at_once() {
    let engine = Engine::start();
    let lab = Lab::start([openai("llama", &engine.endpoint(), 1)]).await;
    engine.queue_scripts([Script::silence(), Script::answer().cut(1, Then::Hang)]);
    let (_, run) = lab.open("llama", tunnel("POST", "/v1/chat/completions"), CHAT).await;
    let run = tokio::spawn(Outcome::of(run));
    engine.wait_received(1, DEADLINE).await;
    engine.crash();
    assert_eq!(run.await.expect("no panic").refusal().reason, RefusalReason::BadAnswer);

    engine.listen_again();
    let (_, mut run) = lab.open("llama", tunnel("POST", "/v1/chat/completions"), STREAM).await;
    within(run.reply()).await.expect("a head");
    chunk(&mut run).await.expect("the first event");
    engine.crash();
    while let Ok(bytes) = chunk(&mut run).await {
        assert!(bytes.is_some(), "no clean end");
    }
    assert_eq!(chunk(&mut run).await, Err(reset(StreamCode::UpstreamAborted)));
}

#[tokio::test]
async fn silence_before_the_answer_and_silence_within_it_each_have_their_limit() {
    let engine = Engine::start();
    let settings = ProviderSettings { first_byte_timeout_ms: 60, ..openai("llama", &engine.endpoint(), 1) };
    let lab = Lab::start([settings]).await;
    engine.queue_scripts([Script::silence()]);
    let refusal = lab.chat("llama").await.refusal();
    assert_eq!(refusal.reason, RefusalReason::TimedOut);
    assert_eq!(refusal.detail, format!("{} did not begin its answer within 60 ms", engine.endpoint()));

    lab.apply([ProviderSettings { idle_timeout_ms: 60, ..openai("llama", &engine.endpoint(), 1) }]);
    engine.queue_scripts([Script::answer().cut(1, Then::Hang)]);
    let (_, mut run) = lab.open("llama", tunnel("POST", "/v1/chat/completions"), STREAM).await;
    within(run.reply()).await.expect("a head");
    while let Ok(bytes) = chunk(&mut run).await {
        assert!(bytes.is_some(), "no clean end");
    }
    assert_eq!(chunk(&mut run).await, Err(reset(StreamCode::UpstreamStalled)));
    assert_eq!(lab.chat("llama").await.answer().0, 200);
}

#[tokio::test]
async fn a_request_that_http_cannot_carry_is_refused_and_not_sent() {
    let engine = Engine::start();
    let lab = Lab::start([openai("llama", &engine.endpoint(), 1)]).await;
    let bad = |method: &str, path: &str, name: &str, value: &'static str| TunnelRequest {
        method: method.into(),
        path: path.into(),
        headers: vec![(name.into(), Bytes::from_static(value.as_bytes()))],
    };
    for request in [
        bad("PO ST", "/v1/models", "x-a", "1"),
        bad("", "/v1/models", "x-a", "1"),
        bad("POST", "v1/models", "x-a", "1"),
        bad("POST", "/v1/models HTTP/1.1\r\nx: y", "x-a", "1"),
        bad("POST", "/v1/models", "x a", "1"),
        bad("POST", "/v1/models", "x-a", "1\r\nx-b: 2"),
    ] {
        let shown = format!("{request:?}");
        let (_, run) = lab.open("llama", RunRequest::Tunnel(request), CHAT).await;
        assert_eq!(Outcome::of(run).await.refusal().reason, RefusalReason::BadRequest, "{shown}");
    }
    assert_eq!(engine.look(|log| log.connections_opened), 0);
}

#[tokio::test]
async fn runs_for_another_generation_or_an_unknown_provider_are_refused() {
    let engine = Engine::start();
    let lab = Lab::start([openai("llama", &engine.endpoint(), 1)]).await;
    let request = tunnel("POST", "/v1/chat/completions");
    let large = vec![7; 4 << 20];
    let (_, run) = lab.open_under(6, "llama", request.clone(), &large).await;
    let refusal = Outcome::of(run).await.refusal();
    assert_eq!(refusal.reason, RefusalReason::StaleGeneration);
    assert_eq!(refusal.detail, "the run is of generation 6, this connection owns 7");
    let (_, run) = lab.open(&"q\n".repeat(20_000), request, &large).await;
    let refusal = Outcome::of(run).await.refusal();
    assert_eq!(refusal.reason, RefusalReason::UnknownProvider);
    assert!(refusal.detail.len() < 1100 && !refusal.detail.contains('\n'), "{refusal:?}");
    assert_eq!(engine.look(|log| log.connections_opened), 0);
}
