//! An Ollama server, by normalized runs: what reaches it, what comes back, and every way in which that can go wrong.

use super::lab::{
    CHAT, DEADLINE, Event, Lab, Outcome, STREAM, event, normalized, ollama, openai, tunnel, within,
};
use bytes::Bytes;
use iop_tests::engine::{Engine, Reply, Script, Then};
use iop_transport::codes::StreamCode;
use iop_transport::tunnel::RunLost;
use iop_transport::wire::{
    Finish, Operation, ProviderSettings, Refusal, RefusalReason, RunEvent, RunReply, Usage,
};
use serde_json::json;

const HELLO: &str = r#"{"model":"m","created_at":"2023-08-04T08:52:19Z","message":{"role":"assistant","content":"Hello"},"done":false}
"#;
const THERE: &str = r#"{"model":"m","message":{"role":"assistant","content":" there"},"done":false}
"#;
const LAST: &str = r#"{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","total_duration":1,"prompt_eval_count":26,"eval_count":2}
"#;

/// An answer in these pieces, chunked as Ollama sends it.
fn pieces(status: u16, pieces: &[&'static str]) -> Script {
    let status = status.try_into().expect("a status");
    let pieces = pieces.iter().map(|piece| Bytes::from_static(piece.as_bytes())).collect();
    let reply = Reply::Http { status, pieces, sized: false };
    Script { reply, ..Script::answer() }.header("content-type", "application/x-ndjson")
}

fn whole() -> Script {
    pieces(200, &[HELLO, THERE, LAST])
}

fn text(piece: &str) -> RunEvent {
    RunEvent::Text(piece.into())
}

fn finished(finish: Finish, prompt_tokens: u32, completion_tokens: u32) -> RunEvent {
    RunEvent::Finished { finish, usage: Usage { prompt_tokens, completion_tokens } }
}

async fn lab(engine: &Engine) -> Lab {
    Lab::start([ollama("ol", &engine.endpoint(), 1)]).await
}

async fn run(lab: &Lab, operation: Operation, body: &[u8]) -> Outcome {
    let (_, run) = lab.open("ol", normalized(operation), body).await;
    Outcome::of(run).await
}

async fn chat(lab: &Lab) -> Outcome {
    run(lab, Operation::Chat, CHAT).await
}

#[tokio::test]
async fn a_chat_goes_to_the_native_api_and_comes_back_as_events_over_one_connection() {
    let engine = Engine::start();
    let lab = lab(&engine).await;
    engine.set_script(whole());
    for body in [CHAT, STREAM, CHAT] {
        let events = run(&lab, Operation::Chat, body).await.events();
        assert_eq!(events, [text("Hello"), text(" there"), finished(Finish::Stop, 26, 2)]);
    }
    let received = engine.request(1);
    assert_eq!((received.method.as_str(), received.path.as_str()), ("POST", "/api/chat"));
    assert_eq!(received.header("content-type"), "application/json");
    let sent =
        json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "hello there"}]});
    assert_eq!(received.json(), sent);
    assert_eq!(engine.look(|log| log.connections_opened), 1);
}

#[tokio::test]
async fn lines_cut_anywhere_are_the_same_events() {
    let engine = Engine::start();
    let lab = lab(&engine).await;
    let answer = [HELLO, THERE, LAST.trim_end()].concat();
    for size in [1, 7, 64, 4096] {
        let pieces = answer.as_bytes().chunks(size).map(Bytes::copy_from_slice).collect();
        let reply = Reply::Http { status: 200.try_into().expect("a status"), pieces, sized: false };
        engine.queue_scripts([Script { reply, ..Script::answer() }]);
        let events = chat(&lab).await.events();
        assert_eq!(events, [text("Hello"), text(" there"), finished(Finish::Stop, 26, 2)], "{size}");
    }
}

#[tokio::test]
async fn each_event_is_passed_on_when_its_line_comes() {
    let engine = Engine::start();
    let lab = lab(&engine).await;
    engine.set_script(whole().cut(1, Then::Hold));
    let (_, mut run) = lab.open("ol", normalized(Operation::Chat), STREAM).await;
    assert_eq!(within(run.reply()).await, Ok(RunReply::Started));
    assert_eq!(event(&mut run).await, Ok(Some(text("Hello"))));
    engine.wait_held(1, DEADLINE).await;
    engine.release_one();
    assert_eq!(event(&mut run).await, Ok(Some(text(" there"))));
    assert_eq!(event(&mut run).await, Ok(Some(finished(Finish::Stop, 26, 2))));
    assert_eq!(event(&mut run).await, Ok(None));
}

#[tokio::test]
async fn reasoning_and_tool_calls_are_events_of_their_own() {
    let engine = Engine::start();
    let lab = lab(&engine).await;
    engine.set_script(pieces(200, &[
        "{\"message\":{\"role\":\"assistant\",\"content\":\"\",\"thinking\":\"Hm.\"},\"done\":false}\n",
        "{\"message\":{\"content\":\"\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{\"z\":1,\"a\":2}}}]},\"done\":false}\n",
        LAST,
    ]));
    let call = RunEvent::ToolCall {
        index: 0,
        id: Some("call_0".into()),
        name: Some("f".into()),
        arguments: r#"{"z":1,"a":2}"#.into(),
    };
    let expected = [RunEvent::Reasoning("Hm.".into()), call, finished(Finish::ToolCalls, 26, 2)];
    assert_eq!(chat(&lab).await.events(), expected);
}

#[tokio::test]
async fn a_completion_goes_to_generate_and_inputs_go_to_embed_in_one_call() {
    let engine = Engine::start();
    let settings = ProviderSettings {
        api_key_env: Some("ENGINE_KEY".into()),
        ..ollama("ol", &format!("{}/v1/", engine.endpoint()), 1)
    };
    let lab = Lab::start([settings]).await;
    engine.queue_scripts([
        pieces(200, &["{\"response\":\"yes\"}\n{\"response\":\"\",\"done\":true,\"done_reason\":\"length\",\"eval_count\":1}\n"]),
        pieces(200, &["{\"embeddings\":[[1,2],", "[0.5,-1]],\"prompt_eval_count\":8}"]),
    ]);
    let events = run(&lab, Operation::Completion, br#"{"prompt":"is it?","max_tokens":1}"#).await.events();
    assert_eq!(events, [text("yes"), finished(Finish::Length, 0, 1)]);
    let events = run(&lab, Operation::Embeddings, br#"{"input":["a","b"]}"#).await.events();
    let vector = |numbers: &[f32]| RunEvent::Embedding(numbers.to_vec());
    assert_eq!(events, [vector(&[1.0, 2.0]), vector(&[0.5, -1.0]), finished(Finish::Stop, 8, 0)]);

    let [generate, embed] = [engine.request(0), engine.request(1)];
    assert_eq!(generate.path, "/api/generate");
    let sent = json!({"model": "m", "stream": true, "prompt": "is it?", "options": {"num_predict": 1}});
    assert_eq!(generate.json(), sent);
    assert_eq!(
        (embed.path.as_str(), embed.json()),
        ("/api/embed", json!({"model": "m", "input": ["a", "b"]}))
    );
    assert_eq!(embed.header("authorization"), "Bearer the-engines-key");
    assert_eq!(engine.look(|log| log.connections_opened), 1);
}

#[tokio::test]
async fn a_large_image_reaches_the_engine_whole() {
    let engine = Engine::start();
    let lab = lab(&engine).await;
    engine.set_script(whole());
    let image = "QUJD".repeat(1 << 20);
    let body = json!({"messages": [{"role": "user", "content": [
        {"type": "text", "text": "what is this?"},
        {"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{image}")}},
    ]}]});
    assert_eq!(run(&lab, Operation::Chat, body.to_string().as_bytes()).await.events().len(), 3);
    let sent = engine.request(0).json();
    assert_eq!(sent["messages"][0]["content"], "what is this?");
    assert!(sent["messages"][0]["images"] == json!([image]));
}

#[tokio::test]
async fn a_request_that_ollama_cannot_run_is_refused_and_not_sent() {
    let engine = Engine::start();
    let lab = lab(&engine).await;
    let url = r#"{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/cat.png"}}]}]}"#;
    for (operation, body) in [
        (Operation::Chat, url),
        (Operation::Chat, "{"),
        (Operation::Chat, ""),
        (Operation::Completion, r#"{"prompt":[1]}"#),
        (Operation::Embeddings, r#"{"input":[[1]]}"#),
    ] {
        let refusal = run(&lab, operation, body.as_bytes()).await.refusal();
        assert_eq!(refusal.reason, RefusalReason::BadRequest, "{refusal:?}");
    }
    let refusal = lab.chat("ol").await.refusal();
    assert_eq!(refusal.detail, "its ollama adapter takes no tunnel runs");
    assert_eq!(engine.look(|log| log.connections_opened), 0);
}

#[tokio::test]
async fn a_refusal_of_the_server_says_whether_another_may_be_asked() {
    let engine = Engine::start();
    let lab = lab(&engine).await;
    let cases = [
        (400, "{\"error\":\"no thinking\"}", RefusalReason::BadRequest, "answered 400: no thinking"),
        (
            404,
            "{\"error\":\"model 'm' not found\"}",
            RefusalReason::BadAnswer,
            "does not have the model \"m\": it answered 404: model 'm' not found",
        ),
        (503, "{\"error\":\"server busy\"}", RefusalReason::Busy, "is busy: it answered 503: server busy"),
        (429, "", RefusalReason::Busy, "is busy: it answered 429: "),
        (500, "{\"error\":\"out of memory\"}", RefusalReason::BadAnswer, "answered 500: out of memory"),
        (204, "", RefusalReason::BadAnswer, "answered 204: "),
    ];
    for (status, body, reason, words) in cases {
        engine.queue_scripts([pieces(status, &[body])]);
        let detail = format!("{} {words}", engine.endpoint());
        assert_eq!(chat(&lab).await.refusal(), Refusal { reason, detail });
    }
    assert!(RefusalReason::Busy.may_try_elsewhere());
    engine.crash();
    assert_eq!(chat(&lab).await.refusal().reason, RefusalReason::Unreachable);
}

#[tokio::test]
async fn an_answer_that_goes_wrong_before_its_first_event_is_a_refusal() {
    let engine = Engine::start();
    let lab = lab(&engine).await;
    let cases = [
        (pieces(200, &["{\"error\":\"the model crashed\"}\n", LAST]), "the model crashed"),
        (pieces(200, &["<html>\n"]), "a line of its answer is not usable"),
        (pieces(200, &[]), "its answer ended before its last line"),
        (pieces(200, &["{\"message\":{\"content\":\"cut"]), "a line of its answer is not usable"),
    ];
    for (script, words) in cases {
        engine.queue_scripts([script]);
        let refusal = chat(&lab).await.refusal();
        assert_eq!(refusal.reason, RefusalReason::BadAnswer);
        assert!(refusal.detail.starts_with(&format!("{}: {words}", engine.endpoint())), "{refusal:?}");
    }
    for body in ["{\"embeddings\":[[1]]}", "{\"error\":\"e\"}", "x"] {
        engine.queue_scripts([pieces(200, &[body])]);
        let refusal = run(&lab, Operation::Embeddings, br#"{"input":["a","b"]}"#).await.refusal();
        assert_eq!(refusal.reason, RefusalReason::BadAnswer, "{refusal:?}");
    }
    engine.queue_scripts([whole().cut(0, Then::Close)]);
    assert_eq!(chat(&lab).await.refusal().reason, RefusalReason::BadAnswer);
    engine.queue_scripts([whole()]);
    assert_eq!(chat(&lab).await.events().len(), 3);
}

#[tokio::test]
async fn an_answer_that_goes_wrong_after_its_first_event_ends_with_a_failed_event() {
    let engine = Engine::start();
    let lab = lab(&engine).await;
    let cases = [
        (pieces(200, &[HELLO, "{\"error\":\"the model crashed\"}\n", LAST]), "the model crashed"),
        (pieces(200, &[HELLO, "nonsense\n", LAST]), "a line of its answer is not usable: expected ident"),
        (pieces(200, &[HELLO]), "its answer ended before its last line"),
    ];
    for (script, words) in cases {
        engine.queue_scripts([script]);
        let events = chat(&lab).await.events();
        let [hello, RunEvent::Failed(problem)] = &events[..] else { panic!("{events:?}") };
        assert_eq!(hello, &text("Hello"));
        assert!(problem.starts_with(&format!("{}: {words}", engine.endpoint())), "{problem}");
    }
    let reply = Reply::Http {
        status: 200.try_into().expect("a status"),
        pieces: vec![Bytes::from_static(HELLO.as_bytes()), Bytes::from(vec![b'x'; 5 << 20])],
        sized: false,
    };
    engine.queue_scripts([Script { reply, ..Script::answer() }]);
    let events = chat(&lab).await.events();
    let Some(RunEvent::Failed(problem)) = events.last() else { panic!("{events:?}") };
    assert!(problem.ends_with("a line of the answer is longer than 4194304 bytes"), "{problem}");
    engine.queue_scripts([whole()]);
    assert_eq!(chat(&lab).await.events().len(), 3);
}

#[tokio::test]
async fn a_connection_that_ends_or_falls_silent_after_the_first_event_resets_the_run() {
    let engine = Engine::start();
    let settings = ProviderSettings { idle_timeout_ms: 60, ..ollama("ol", &engine.endpoint(), 1) };
    let lab = Lab::start([settings]).await;
    for (then, code) in [
        (Then::Close, StreamCode::UpstreamAborted),
        (Then::Reset, StreamCode::UpstreamAborted),
        (Then::Hang, StreamCode::UpstreamStalled),
    ] {
        engine.queue_scripts([whole().cut(1, then)]);
        assert_eq!(chat(&lab).await.lost(), RunLost::Reset { code: Some(code) }, "{then:?}");
    }
}

#[tokio::test]
async fn a_server_that_takes_too_long_to_begin_is_timed_out() {
    let engine = Engine::start();
    let settings = ProviderSettings {
        first_byte_timeout_ms: 60,
        idle_timeout_ms: 60,
        ..ollama("ol", &engine.endpoint(), 1)
    };
    let lab = Lab::start([settings]).await;
    for script in [Script::silence(), whole().cut(0, Then::Hang)] {
        engine.queue_scripts([script]);
        assert_eq!(chat(&lab).await.refusal().reason, RefusalReason::TimedOut);
    }
}

#[tokio::test]
async fn an_answer_is_complete_with_its_last_line_even_if_the_server_does_not_end_it() {
    let engine = Engine::start();
    let lab = lab(&engine).await;
    engine.queue_scripts([whole().cut(3, Then::Hang)]);
    assert_eq!(chat(&lab).await.events().len(), 3);
    engine.wait_closed(0, DEADLINE).await;
    engine.queue_scripts([pieces(200, &[HELLO, LAST, "trailing\n"])]);
    assert_eq!(chat(&lab).await.events().len(), 2);
}

#[tokio::test]
async fn a_cancel_closes_the_upstream_connection_then_frees_the_place_then_ends_the_run() {
    let engine = Engine::start();
    let lab = lab(&engine).await;
    for (round, script) in [Script::silence(), whole().cut(1, Then::Hang)].into_iter().enumerate() {
        engine.queue_scripts([script]);
        let (lease, mut run) = lab.open("ol", normalized(Operation::Chat), CHAT).await;
        tokio::select! {
            reply = run.reply() => assert_eq!((round, reply), (1, Ok(RunReply::Started))),
            () = engine.wait_received(round + 1, DEADLINE), if round == 0 => {}
        }
        drop(run);
        lab.returned(lease).await;
        assert_eq!(lab.journal.events().last_chunk(), Some(&[Event::Closed, Event::Returned(lease)]));
        assert!(engine.wait_closed(round, DEADLINE).await.broken_off());
    }
    engine.queue_scripts([whole()]);
    assert_eq!(chat(&lab).await.events().len(), 3);
}

/// [tunnel-guard]
#[tokio::test]
async fn of_runs_opened_at_once_past_admission_one_reaches_the_engine_and_the_others_are_told_why() {
    let engine = Engine::start();
    engine.set_script(whole());
    engine.hold();
    let lab = Lab::start([ollama("ol", &engine.endpoint(), 1), openai("llama", &engine.endpoint(), 1)]).await;
    for (provider, request, body) in [
        ("ol", normalized(Operation::Chat), STREAM),
        ("llama", tunnel("POST", "/v1/chat/completions"), STREAM),
    ] {
        let before = engine.look(|log| log.requests.len());
        let mut runs = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let (_, run) = lab.open(provider, request.clone(), body).await;
            runs.spawn(Outcome::of(run));
        }
        // All but one end; the one waits in the engine.
        for _ in 0..3 {
            let refusal = within(runs.join_next()).await.expect("three more").expect("no panic").refusal();
            assert_eq!(refusal.reason, RefusalReason::GateFull);
            assert_eq!(refusal.detail, format!("provider {provider} on this node runs 1 of 1"));
        }
        engine.wait_held(1, DEADLINE).await;
        // The other kind of run finds the same gate full.
        let (_, other) = lab.open(provider, tunnel("POST", "/v1/embeddings"), body).await;
        assert_eq!(Outcome::of(other).await.refusal().reason, RefusalReason::GateFull);
        let (_, other) = lab.open(provider, normalized(Operation::Completion), body).await;
        assert_eq!(Outcome::of(other).await.refusal().reason, RefusalReason::GateFull);

        engine.release_one();
        let served = within(runs.join_next()).await.expect("the last one").expect("no panic");
        assert!(matches!(served, Outcome::Events(_) | Outcome::Answer { status: 200, .. }), "{served:?}");
        assert_eq!(engine.look(|log| log.requests.len()), before + 1);
    }
    assert_eq!(engine.peak(), 1);
    let leases = lab.journal.events().iter().filter(|event| matches!(event, Event::Returned(_))).count();
    assert_eq!(leases, 12, "each lease came back once");
}
