//! Comments in streams that have nothing to say yet: off unless asked for, late, and what fails after them fails in the
//! stream.

use crate::lab::{DEADLINE, MODEL, UPSTREAM, deploy, plan, wait_for_rest};
use iop_tests::deployment::Deployment;
use iop_tests::engine::{Engine, Script, Then};
use iop_tests::http::{Call, Streaming, open, send};
use serde_json::json;
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_secs(10);
const COMMENT: &str = ": keep-alive\n\n";

fn call(path: &str, model: &str, stream: bool) -> Call {
    Call::post(path, &json!({"model": model, "messages": [], "input": "x", "stream": stream}))
}

/// The first piece, which must be a comment and come when the interval is over.
async fn comment(stream: &mut Streaming, begun: Instant) {
    assert_eq!(stream.status, 200);
    assert_eq!(stream.headers["content-type"], "text/event-stream");
    let piece = stream.next().await.expect("the stream goes on").expect("a piece");
    assert_eq!(piece.bytes, COMMENT);
    assert!(begun.elapsed() >= INTERVAL, "not before {INTERVAL:?}: {:?}", begun.elapsed());
}

async fn rest(stream: &mut Streaming) -> String {
    let (pieces, end) = stream.rest().await;
    end.expect("a clean end");
    let bytes: Vec<u8> = pieces.iter().flat_map(|piece| piece.bytes.to_vec()).collect();
    String::from_utf8(bytes).expect("text")
}

/// An edge with keep-alives and these engines, each behind a model of its own: `m0`, `m1` …
async fn start(engines: &[&Engine]) -> Deployment {
    let mut plan = plan(engines[0], 1);
    for (number, engine) in engines.iter().enumerate() {
        let provider = format!("p{number}");
        plan = plan.provider("gpu-a", &provider, &engine.endpoint(), 1).model(
            &format!("m{number}"),
            &[("gpu-a", &provider)],
            UPSTREAM,
        );
    }
    let interval = json!(INTERVAL.as_millis() as u64);
    let plan = plan.edge_value("/http/sse_keep_alive_ms", interval);
    deploy(plan.edge_value("/provider_pool/queue_timeout_ms", json!(12_000))).await
}

#[tokio::test]
async fn a_silent_stream_gets_comments_until_its_first_byte_and_none_after_it() {
    let (prefill, headed, plain) = (Engine::start(), Engine::start(), Engine::start());
    prefill.set_script(Script::stream(2, Duration::ZERO).held().cut(1, Then::Hold));
    headed.set_script(Script::stream(2, Duration::ZERO).cut(0, Then::Hold));
    plain.set_script(Script::answer().held());
    let iop = start(&[&prefill, &headed, &plain]).await;
    let begun = Instant::now();
    let silent = async {
        let mut stream = open(iop.http, call("/v1/chat/completions", "m0", true)).await.expect("a stream");
        comment(&mut stream, begun).await;
        prefill.release_one();
        prefill.wait_held(1, DEADLINE).await;
        // Longer than comments are apart: with the first byte on its way there must be none.
        tokio::time::sleep(INTERVAL + Duration::from_secs(1)).await;
        prefill.release_one();
        rest(&mut stream).await
    };
    let begun_by_provider = async {
        let mut stream = open(iop.http, call("/v1/chat/completions", "m1", true)).await.expect("a stream");
        assert!(begun.elapsed() < INTERVAL, "the provider's head is passed on at once");
        comment(&mut stream, begun).await;
        headed.release_one();
        rest(&mut stream).await
    };
    let whole = async {
        let answer = tokio::spawn(send(iop.http, call("/v1/chat/completions", "m2", false)));
        plain.wait_held(1, DEADLINE).await;
        tokio::time::sleep(INTERVAL + Duration::from_secs(1)).await;
        plain.release_one();
        answer.await.expect("no panic").expect("an answer")
    };
    let (silent, begun_by_provider, whole) = tokio::join!(silent, begun_by_provider, whole);
    for (text, pause) in [(silent, "11 s between its events"), (begun_by_provider, "no pause")] {
        assert!(text.starts_with("data: {") && text.ends_with("data: [DONE]\n\n"), "{text}");
        assert!(!text.contains(COMMENT), "no comment after the first byte, {pause}: {text}");
    }
    assert!(whole.body.starts_with(b"{"), "an answer that is no stream has no comments: {whole:?}");
    wait_for_rest(&iop).await;
    iop.shut_down().await;
}

#[tokio::test]
async fn what_fails_after_a_comment_is_an_error_event_and_the_end() {
    let (full, refusing, dying) = (Engine::start(), Engine::start(), Engine::start());
    full.set_script(Script::answer().held());
    refusing.set_script(Script::status(400).delayed(INTERVAL + Duration::from_secs(1)));
    dying.set_script(Script::no_answer().delayed(INTERVAL + Duration::from_secs(1)));
    let iop = start(&[&full, &refusing, &dying]).await;
    let running = tokio::spawn(open(iop.http, call("/v1/chat/completions", "m0", false)));
    full.wait_held(1, DEADLINE).await;
    let begun = Instant::now();
    let failing = async |path: &str, model: &str| {
        let mut stream = open(iop.http, call(path, model, true)).await.expect("a stream");
        comment(&mut stream, begun).await;
        rest(&mut stream).await
    };
    let (queued, refused, died) = tokio::join!(
        failing("/v1/responses", "m0"),
        failing("/v1/messages", "m1"),
        failing("/v1/completions", "m2"),
    );
    let message = "no provider became free within 12000 ms (provider_pool.queue_timeout_ms)";
    let event = json!({"type": "error", "code": "queue_timeout", "message": message, "param": null, "sequence_number": 0});
    let data = queued.strip_prefix("event: error\ndata: ").expect("an error event").trim_end();
    assert_eq!(serde_json::from_str::<serde_json::Value>(data).expect("JSON"), event);
    assert!(refused.starts_with("event: error\ndata: {\"type\":\"error\""), "{refused}");
    assert!(refused.contains("the provider answered 400: ") && refused.contains("Bad Request"), "{refused}");
    assert!(died.starts_with("data: {\"error\":{\"message\":\"provider `p2` of node `gpu-a`"), "{died}");
    for text in [queued, refused, died] {
        assert_eq!(text.matches("data: ").count(), 1, "one event: {text}");
        assert!(text.ends_with("}\n\n"), "nothing after it: {text}");
    }
    full.release_all();
    drop(running.await);
    wait_for_rest(&iop).await;
    iop.shut_down().await;
}

#[tokio::test]
async fn without_the_setting_there_are_no_comments() {
    let engine = Engine::start();
    engine.set_script(Script::stream(2, Duration::ZERO).delayed(INTERVAL + Duration::from_secs(1)));
    let iop = deploy(plan(&engine, 1)).await;
    let mut stream = open(iop.http, call("/v1/chat/completions", MODEL, true)).await.expect("a stream");
    let text = rest(&mut stream).await;
    assert!(text.starts_with("data: "), "{text}");
    iop.shut_down().await;
}
