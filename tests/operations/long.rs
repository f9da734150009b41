//! Long and normal requests: what counts as which, and that long ones keep to their own slots.

use crate::lab::{DEADLINE, Lab, MODELS, NODE, PROVIDER, chat, code, plan, provider, texts};
use iop_tests::deployment::Plan;
use iop_tests::engine::{Engine, Script};
use iop_tests::http::Call;
use serde_json::{Value, json};

/// Prompt tokens from which a request is long.
const THRESHOLD: usize = 1_000;
/// Tokens of the longest context.
const WINDOW: usize = 8_000;

/// Both models with a threshold, on three slots of which one is long.
fn long_plan(engine: &Engine) -> Plan {
    plan(engine, 3)
        .edge_value("/nodes/0/providers/0/long_context_capacity", json!(1))
        .edge_value("/nodes/0/providers/0/context_window_tokens", json!(WINDOW))
        .edge_value("/nodes/0/providers/0/total_context_tokens", json!(WINDOW))
        .edge_value("/models/0/long_context_threshold_tokens", json!(THRESHOLD))
        .edge_value("/models/1/long_context_threshold_tokens", json!(THRESHOLD))
}

/// A request of about this many tokens, which begins with `name`.
fn sized(model: &str, name: &str, tokens: usize) -> Call {
    chat(model, &format!("{name:.<width$}", width = tokens * 4))
}

/// The names of the requests that the engine got.
fn names(engine: &Engine) -> Vec<String> {
    texts(engine).iter().map(|text| text.split('.').next().unwrap_or_default().to_owned()).collect()
}

/// An answer that reports this many prompt tokens.
fn reporting(tokens: u64) -> Script {
    let body = json!({"choices": [], "usage": {"prompt_tokens": tokens, "completion_tokens": 1}});
    Script::body(body.to_string()).header("content-type", "application/json")
}

fn long_in_flight(snapshot: &Value) -> &Value {
    &provider(snapshot, NODE, PROVIDER)["long_in_flight"]
}

// [long-state]
#[tokio::test]
async fn a_request_longer_than_every_window_is_refused_and_never_sent() {
    let engine = Engine::start();
    let lab = Lab::start(long_plan(&engine)).await;
    let refused = lab.send(sized(MODELS[0], "a", WINDOW + 100)).answer().await;
    assert_eq!((refused.status.as_u16(), code(&refused).as_str()), (400, "context_length_exceeded"));
    assert!(refused.text().contains(&WINDOW.to_string()), "{refused:?}");
    assert_eq!(lab.send(sized(MODELS[0], "b", WINDOW - 100)).answer().await.status, 200);
    assert_eq!(names(&engine), ["b"]);
}

// [long-state]
#[tokio::test]
async fn a_request_is_long_by_its_estimate_unless_a_header_says_otherwise() {
    let engine = Engine::start();
    let lab = Lab::start(long_plan(&engine)).await;
    engine.hold();
    let cases: [(usize, Option<&str>, u64); 4] = [
        (THRESHOLD / 2, None, 0),
        (THRESHOLD * 2, None, 1),
        (THRESHOLD * 2, Some("normal"), 0),
        (THRESHOLD / 2, Some("long"), 1),
    ];
    for (tokens, header, expected) in cases {
        let call = sized(MODELS[0], "a", tokens);
        let call = if let Some(value) = header { call.header("x-iop-context", value) } else { call };
        let sent = lab.occupy(&engine, call).await;
        let snapshot = lab.snapshot().await;
        assert_eq!(*long_in_flight(&snapshot), expected, "{tokens} tokens, header {header:?}");
        sent.give_up();
        lab.wait_for_rest().await;
    }
    engine.look(|log| {
        for request in log.scripted() {
            assert_eq!(request.header("x-iop-context"), "", "the header is for the edge alone");
        }
    });
    let refused = lab.send(chat(MODELS[0], "a").header("x-iop-context", "huge")).answer().await;
    assert_eq!((refused.status.as_u16(), code(&refused).as_str()), (400, "invalid_request"));
}

// [long-state] [cross-group-wakeup]
#[tokio::test]
async fn long_requests_of_two_models_share_one_long_slot_and_block_no_normal_one_behind_them() {
    let engine = Engine::start();
    let lab = Lab::start(long_plan(&engine)).await;
    engine.hold();
    let mut sent = vec![lab.occupy(&engine, sized(MODELS[0], "long-1", THRESHOLD * 2)).await];
    sent.push(lab.enqueue(sized(MODELS[1], "long-2", THRESHOLD * 2)).await);
    sent.push(lab.enqueue(sized(MODELS[0], "long-3", THRESHOLD * 2)).await);
    // They came later and run: two normal slots are free.
    sent.push(lab.occupy(&engine, chat(MODELS[1], "normal-1")).await);
    sent.push(lab.occupy(&engine, chat(MODELS[0], "normal-2")).await);

    let snapshot = lab.snapshot().await;
    let view = provider(&snapshot, NODE, PROVIDER);
    let expected = [
        ("in_flight", 3),
        ("long_in_flight", 1),
        ("queued", 2),
        ("long_queued", 2),
        ("long_context_capacity", 1),
    ];
    for (field, value) in expected {
        assert_eq!(view[field], value, "{field}: {view:#}");
    }
    assert_eq!(snapshot["queue"]["length"], 2);

    // The oldest is the long one: its slot goes to the next long one, of the other model, and to that alone.
    engine.release_one();
    engine.wait_received(4, DEADLINE).await;
    engine.wait_held(3, DEADLINE).await;
    let snapshot = lab.snapshot().await;
    assert_eq!((long_in_flight(&snapshot), &snapshot["queue"]["length"]), (&json!(1), &json!(1)));
    assert_eq!(names(&engine), ["long-1", "normal-1", "normal-2", "long-2"]);
    engine.release_all();
    for sent in sent {
        assert_eq!(sent.answer().await.status, 200);
    }
    assert_eq!(names(&engine)[4], "long-3");
    lab.wait_for_rest().await;
    engine.look(|log| {
        let long: Vec<_> = log.scripted().filter(|request| request.body.len() > THRESHOLD * 4).collect();
        assert_eq!(long.len(), 3);
        for pair in long.windows(2) {
            let answered = pair[0].answered.expect("every request was answered");
            assert!(answered <= pair[1].arrived, "two long requests at one moment: {pair:?}");
        }
    });
}

// [long-state]
#[tokio::test]
async fn what_the_provider_counts_decides_whether_the_models_next_request_is_long() {
    let engine = Engine::start();
    let lab = Lab::start(long_plan(&engine)).await;
    let tokens = THRESHOLD * 7 / 10;
    let is_long = async |model: &str| {
        engine.hold();
        let sent = lab.occupy(&engine, sized(model, "a", tokens)).await;
        let snapshot = lab.snapshot().await;
        sent.give_up();
        lab.wait_for_rest().await;
        engine.release_all();
        *long_in_flight(&snapshot) == 1
    };
    assert!(!is_long(MODELS[0]).await);
    engine.set_script(reporting(3 * tokens as u64));
    for _ in 0..5 {
        assert_eq!(lab.send(sized(MODELS[0], "a", tokens)).answer().await.status, 200);
    }
    assert!(is_long(MODELS[0]).await, "its provider counts three times as many");
    assert!(!is_long(MODELS[1]).await, "nothing is known of the other model");
    engine.set_script(reporting(1));
    for _ in 0..50 {
        assert_eq!(lab.send(sized(MODELS[0], "a", tokens)).answer().await.status, 200);
    }
    assert!(!is_long(MODELS[0]).await, "its provider counts fewer now");
}
