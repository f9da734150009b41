//! The built-in provider, by normalized runs.

use super::lab::{CHAT, Lab, Outcome, echo, normalized, openai};
use iop_transport::wire::{Finish, Operation, RefusalReason, RunEvent, Usage};

fn text(piece: &str) -> RunEvent {
    RunEvent::Text(piece.into())
}

fn finished(finish: Finish, prompt_tokens: u32, completion_tokens: u32) -> RunEvent {
    RunEvent::Finished { finish, usage: Usage { prompt_tokens, completion_tokens } }
}

async fn run(lab: &Lab, operation: Operation, body: &[u8]) -> Outcome {
    let (_, run) = lab.open("echo", normalized(operation), body).await;
    Outcome::of(run).await
}

#[tokio::test]
async fn the_last_user_message_is_said_again_word_by_word() {
    let lab = Lab::start([echo("echo", 3, 1, 1)]).await;
    let events = run(&lab, Operation::Chat, CHAT).await.events();
    assert_eq!(events, [text("hello"), text(" there"), text(" hello"), finished(Finish::Stop, 2, 3)]);

    let events = run(&lab, Operation::Completion, br#"{"prompt":"one"}"#).await.events();
    assert_eq!(events, [text("one"), text(" one"), text(" one"), finished(Finish::Stop, 1, 3)]);

    let events = run(&lab, Operation::Chat, br#"{"messages":[]}"#).await.events();
    assert_eq!(events, [text("nothing"), text(" was"), text(" said"), finished(Finish::Stop, 0, 3)]);
}

#[tokio::test]
async fn the_clients_limit_ends_an_answer_for_its_length() {
    let lab = Lab::start([echo("echo", 3, 0, 1)]).await;
    for (limit, words, finish) in [(1, 1, Finish::Length), (3, 3, Finish::Stop), (9, 3, Finish::Stop)] {
        for name in ["max_tokens", "max_completion_tokens"] {
            let body = format!(r#"{{"messages":[{{"role":"user","content":"a"}}],"{name}":{limit}}}"#);
            let events = run(&lab, Operation::Chat, body.as_bytes()).await.events();
            assert_eq!(events.len(), words + 1, "{name} {limit}");
            let count = u32::try_from(words).expect("few words");
            assert_eq!(events.last(), Some(&finished(finish, 1, count)), "{name} {limit}");
        }
    }
}

#[tokio::test]
async fn each_input_gets_its_vector_in_order() {
    let lab = Lab::start([echo("echo", 3, 0, 1)]).await;
    let vectors = |events: &[RunEvent]| -> Vec<RunEvent> {
        events.iter().filter(|event| matches!(event, RunEvent::Embedding(_))).cloned().collect()
    };
    let both = run(&lab, Operation::Embeddings, br#"{"input":["one","two words"]}"#).await.events();
    let one = run(&lab, Operation::Embeddings, br#"{"input":"one"}"#).await.events();
    assert_eq!((both.len(), one.len()), (3, 2));
    assert_eq!(vectors(&both)[0], vectors(&one)[0]);
    assert_ne!(vectors(&both)[0], vectors(&both)[1]);
    assert_eq!(both.last(), Some(&finished(Finish::Stop, 3, 0)));
}

#[tokio::test]
async fn a_body_that_it_does_not_understand_is_a_bad_request_and_an_operation_of_another_adapter_is_not_for_it()
 {
    let lab = Lab::start([echo("echo", 3, 0, 1), openai("llama", "http://127.0.0.1:1", 1)]).await;
    for body in [&b""[..], b"{", b"[1]", b"\xff\xff", br#"{"messages":{}}"#] {
        for operation in [Operation::Chat, Operation::Completion, Operation::Embeddings] {
            let refusal = run(&lab, operation, body).await.refusal();
            assert_eq!(refusal.reason, RefusalReason::BadRequest, "{refusal:?}");
        }
    }
    let refusal = lab.chat("echo").await.refusal();
    assert_eq!(refusal.reason, RefusalReason::UnknownProvider);
    assert_eq!(refusal.detail, "its echo adapter takes no tunnel runs");
    let (_, run) = lab.open("llama", normalized(Operation::Chat), CHAT).await;
    let refusal = Outcome::of(run).await.refusal();
    assert_eq!(refusal.reason, RefusalReason::UnknownProvider);
    assert_eq!(refusal.detail, "its openai adapter takes tunnel runs only");
}

#[tokio::test]
async fn a_word_far_larger_than_an_event_is_cut() {
    let lab = Lab::start([echo("echo", 1, 0, 1)]).await;
    let body = format!(r#"{{"prompt":"{}"}}"#, "ü".repeat(1 << 20));
    let events = run(&lab, Operation::Completion, body.as_bytes()).await.events();
    assert_eq!(events, [text(&"ü".repeat(128)), finished(Finish::Stop, 1, 1)]);
}
