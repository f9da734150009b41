//! The edge's errors as OpenAI's clients see them: the class that they raise, and whether they ask again.

use crate::clients::{CLIENT_DEADLINE, Client, Seen};
use crate::lab::{DEADLINE, IOP, MODEL, assert_tunnelled, deploy, scripted, wait_for_no_lease};
use crate::shapes;
use iop_tests::deployment::Deployment;
use iop_tests::engine::{Engine, Script, Then};
use iop_tests::http::{Call, send};
use iop_tests::process::Finished;
use serde_json::{Value, json};
use std::time::Duration;

/// The statuses of the answers that the Python client got, with their times in milliseconds.
fn responses(finished: &Finished) -> Vec<(u16, f64)> {
    let lines = finished.stdout.iter().filter_map(|line| line.strip_prefix("response "));
    let read = |line: &str| {
        let (status, millis) = line.split_once(' ').expect("a status and a time");
        (status.parse().expect("a status"), millis.parse().expect("a time"))
    };
    lines.map(read).collect()
}

#[tokio::test]
async fn a_full_queue_makes_the_client_ask_again_when_it_was_told_and_be_served() {
    let engine = Engine::start();
    engine.queue_scripts([Script::answer().held()]);
    let plan = scripted(&engine).edge_value("/provider_pool/max_queue", json!(0));
    let iop = deploy(plan).await;
    let first = tokio::spawn(send(iop.http, Call::chat(MODEL, false)));
    engine.wait_held(1, DEADLINE).await;

    let options = ["chat", "--retries", "5", "--trace"];
    let mut client = Client::OpenAi.program(iop.http, MODEL).args(options).start();
    client.wait_for_line("response 429", CLIENT_DEADLINE).await;
    engine.release_one();
    assert_eq!(first.await.expect("the call ended").expect("an answer").status, 200);
    let status = client.wait_for_exit(CLIENT_DEADLINE).await;
    let finished = Finished { status, stdout: client.stdout(), stderr: client.stderr() };
    let finished = finished.expect_success("the client");

    let answers = responses(&finished);
    let (last, refused) = answers.split_last().expect("there were answers");
    assert!(!refused.is_empty() && refused.iter().all(|(status, _)| *status == 429), "{answers:?}");
    assert_eq!(last.0, 200, "{answers:?}");
    for pair in answers.windows(2) {
        // Left to itself it waits for half a second at first. Both times are the client's own.
        assert!(pair[1].1 - pair[0].1 >= 990.0, "retry-after-ms is 1000: {answers:?}");
    }
    assert_tunnelled(&engine, &iop, 2).await;
    iop.shut_down().await;
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_once_and_not_sent_again() {
    let engine = Engine::start();
    let iop = deploy(scripted(&engine).edge_value("/http/max_body_bytes", json!(1 << 20))).await;
    let file = iop.path("large.txt");
    std::fs::write(&file, "x".repeat(8 << 20)).expect("the deployment's folder can be written to");
    let file = file.display().to_string();
    let options = ["error", "--file", &file, "--retries", "3", "--trace"];
    let finished = Client::OpenAi.program(iop.http, MODEL).args(options).run(CLIENT_DEADLINE).await;
    let finished = finished.expect_success("the client");
    let error = Seen::read(&finished).of("error").clone();
    assert_eq!((&error["status"], &error["code"]), (&json!(413), &json!("request_too_large")), "{error}");
    assert_eq!(responses(&finished).len(), 1, "{finished:?}");
    assert_eq!(engine.look(|log| log.requests.len()), 0);
    iop.shut_down().await;
}

async fn error(iop: &Deployment, model: &str, options: &[&str]) -> Value {
    let python = Client::OpenAi.check(iop.http, model, &["error"], options).await.of("error").clone();
    let node = Client::OpenAiNode.check(iop.http, model, &["error"], &[]).await.of("error").clone();
    for field in ["class", "status", "code"] {
        assert_eq!(python[field], node[field], "{python} and {node}");
    }
    python
}

fn assert_error(error: &Value, class: &str, status: u16, code: &str, kind: &str) {
    let found = [&error["class"], &error["status"], &error["code"], &error["type"]];
    assert_eq!(found, [&json!(class), &json!(status), &json!(code), &json!(kind)], "{error}");
}

#[tokio::test]
async fn each_error_of_the_edge_is_the_one_that_the_clients_know_it_by() {
    let engine = Engine::start();
    let plan = scripted(&engine)
        .edge_value("/nodes/0/providers/0/context_window_tokens", json!(1))
        .provider("gpu-b", "dead", "http://127.0.0.1:1", 1)
        .model("unreachable", &[("gpu-b", "dead")], "x")
        .provider("gpu-c", "off", "http://127.0.0.1:1", 1)
        .model("offline", &[("gpu-c", "off")], "x");
    let mut iop = Deployment::start_edge(IOP, plan).await;
    iop.start_node("gpu-a").await;
    iop.start_node("gpu-b").await;

    let found = error(&iop, "no-such-model", &[]).await;
    assert_error(&found, "NotFoundError", 404, "model_not_found", "invalid_request_error");
    let found = error(&iop, MODEL, &[]).await;
    assert_error(&found, "BadRequestError", 400, "context_length_exceeded", "invalid_request_error");
    let found = error(&iop, "offline", &[]).await;
    assert_error(&found, "InternalServerError", 503, "provider_unavailable", "server_error");
    assert!(found["message"].as_str().expect("text").contains("gpu-c"), "it names what is offline: {found}");
    let found = error(&iop, "unreachable", &[]).await;
    assert_error(&found, "InternalServerError", 502, "provider_unreachable", "server_error");
    assert_eq!(engine.look(|log| log.requests.len()), 0);
    wait_for_no_lease(&iop).await;
    iop.shut_down().await;
}

#[tokio::test]
async fn a_wrong_key_is_the_clients_error_of_authentication_and_the_right_one_stays_at_the_edge() {
    let engine = Engine::start();
    let keys = json!({"keys": [{"name": "alice", "key": "sk-of-alice"}]});
    let iop = deploy(scripted(&engine).edge_value("/auth", keys)).await;
    let found = error(&iop, MODEL, &[]).await;
    assert_error(&found, "AuthenticationError", 401, "invalid_api_key", "authentication_error");
    let seen = Client::OpenAi.check(iop.http, MODEL, &["chat"], &["--api-key", "sk-of-alice"]).await;
    seen.assert_text(&["chat"], &Script::answer().text());
    assert_tunnelled(&engine, &iop, 1).await;
    iop.shut_down().await;
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_an_error_for_the_client_after_the_text_that_came() {
    let engine = Engine::start();
    let iop = deploy(scripted(&engine)).await;
    let broken = || Script::stream(5, Duration::from_millis(100)).cut(4, Then::Close);
    // The beginnings of response, message and part, and two pieces of text.
    engine.queue_scripts([broken(), shapes::responses_stream().cut(5, Then::Close), broken()]);
    let checks = ["broken-stream", "broken-responses-stream"];
    let python = Client::OpenAi.check(iop.http, MODEL, &checks, &[]).await;
    let node = Client::OpenAiNode.check(iop.http, MODEL, &checks[..1], &[]).await;
    for error in [python.of("broken-stream"), node.of("broken-stream")] {
        assert_eq!(
            (&error["class"], &error["type"]),
            (&json!("APIError"), &json!("server_error")),
            "{error}"
        );
        // The last piece before the break may go with it: it comes together with the news.
        assert!(["0 1 2 ", "0 1 2 3 "].map(Value::from).contains(&error["text"]), "{error}");
    }
    let error = python.of("broken-responses-stream");
    assert!(["Grü", "Grüße"].map(Value::from).contains(&error["text"]), "{error}");
    assert!(error["message"].as_str().expect("text").contains("broke"), "{error}");
    assert_tunnelled(&engine, &iop, 3).await;
    iop.shut_down().await;
}
