//! Requests that the edge answers itself: the status, the code, and a message that says what to do. None of them reaches
//! a provider it is not for.

use crate::lab::{DEADLINE, IOP, deploy, plan, wait_for_no_lease};
use iop_tests::deployment::Deployment;
use iop_tests::engine::Engine;
use iop_tests::http::{Answer, Call, send};
use iop_tests::process::Signal;
use serde_json::json;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Passes when the answer is an error in OpenAI's shape with this status and code, and its message has all these words.
fn assert_refused(answer: &Answer, status: u16, code: &str, words: &[&str]) {
    assert_eq!(answer.status.as_u16(), status, "{answer:?}");
    assert_eq!(answer.header("content-type"), "application/json");
    assert!(!answer.header("x-request-id").is_empty(), "{answer:?}");
    let body = answer.json();
    let error = body["error"].as_object().expect("an error in OpenAI's shape");
    assert_eq!(error.keys().collect::<Vec<_>>(), ["code", "message", "param", "type"]);
    assert_eq!(error["code"], code, "{body}");
    let kind = if status < 500 { "invalid_request_error" } else { "server_error" };
    assert_eq!(error["type"], kind, "{body}");
    let message = error["message"].as_str().expect("a text");
    assert!(words.iter().all(|word| message.contains(word)), "{words:?} in {message:?}");
}

fn post(body: &str) -> Call {
    Call::post("/v1/chat/completions", &json!(null)).pieces([body.to_owned()], Duration::ZERO)
}

#[tokio::test]
async fn a_body_that_is_no_json_object_with_a_model_is_refused_and_says_where() {
    let engine = Engine::start();
    let iop = deploy(plan(&engine, 1)).await;
    let cases: [(&str, &[&str]); 7] = [
        ("", &["body"]),
        ("hello", &["byte 0", "not valid JSON", "expected '{'"]),
        ("[1]", &["byte 0", "JSON object"]),
        ("{\"model\":\"ornith:35b\",}", &["byte 22"]),
        ("{\"model\":\"ornith:35b\"", &["byte 21"]),
        ("{\"messages\":[]}", &["names no `model`"]),
        ("{\"model\":\"\"}", &["names no `model`"]),
    ];
    for (body, words) in cases {
        let answer = send(iop.http, post(body)).await.expect("the edge answers");
        assert_refused(&answer, 400, "invalid_request", words);
    }
    let answer = send(iop.http, post("{\"model\":\"ornith:35b\"}")).await.expect("the edge answers");
    assert_eq!(answer.status, 200, "the control: {answer:?}");
    assert_eq!(engine.look(|log| log.requests.len()), 1);
    iop.shut_down().await;
}

#[tokio::test]
async fn what_the_edge_does_not_have_is_named() {
    let engine = Engine::start();
    let iop = deploy(plan(&engine, 1)).await;
    let unknown = send(iop.http, Call::chat("ornith:70b", true)).await.expect("the edge answers");
    assert_refused(&unknown, 404, "model_not_found", &["`ornith:70b`"]);
    let path = send(iop.http, Call::post("/v1/nothing", &json!({"model": "ornith:35b"}))).await;
    assert_refused(&path.expect("the edge answers"), 404, "not_found", &["/v1/nothing"]);
    let method = send(iop.http, Call::get("/v1/chat/completions")).await.expect("the edge answers");
    assert_refused(&method, 405, "method_not_allowed", &["GET"]);
    assert_eq!(method.header("allow"), "POST");
    assert_eq!(engine.look(|log| log.requests.len()), 0);
    iop.shut_down().await;
}

#[tokio::test]
async fn a_provider_that_does_not_listen_is_named_with_its_node() {
    // Bound and not listening: nobody else takes the port, and connections are refused.
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
    let endpoint = format!("http://{}", socket.local_addr().expect("bound"));
    let engine = Engine::start();
    let plan = plan(&engine, 1)
        .provider("gpu-a", "dead", &endpoint, 1)
        .model("dead-model", &[("gpu-a", "dead")], "m")
        .model("either", &[("gpu-a", "dead"), ("gpu-a", "engine")], "m");
    let iop = deploy(plan).await;
    for stream in [false, true] {
        let answer = send(iop.http, Call::chat("dead-model", stream)).await.expect("the edge answers");
        let words = ["provider `dead` of node `gpu-a`", &endpoint, "refused the connection"];
        assert_refused(&answer, 502, "provider_unreachable", &words);
    }
    for _ in 0..4 {
        let answer = send(iop.http, Call::chat("either", false)).await.expect("the edge answers");
        assert_eq!(answer.status, 200, "the other candidate answers: {answer:?}");
    }
    assert_eq!(engine.look(|log| log.requests.len()), 4);
    wait_for_no_lease(&iop).await;
    iop.shut_down().await;
}

/// [disconnect-queue-resolution] [offline-snapshot]
#[tokio::test]
async fn a_model_whose_nodes_are_not_connected_is_unavailable_at_once_and_says_who_is_missing() {
    let engine = Engine::start();
    let plan = plan(&engine, 1).provider("gpu-b", "other", &engine.endpoint(), 1).model(
        "both",
        &[("gpu-a", "engine"), ("gpu-b", "other")],
        "m",
    );
    let mut iop = Deployment::start_edge(IOP, plan).await;
    let begun = Instant::now();
    let answer = send(iop.http, Call::chat("both", true)).await.expect("the edge answers");
    let words = [
        "`both`",
        "provider `engine` of node `gpu-a`: its node is not connected",
        "provider `other` of node `gpu-b`: its node is not connected",
    ];
    assert_refused(&answer, 503, "provider_unavailable", &words);
    assert!(begun.elapsed() < Duration::from_secs(5), "no wait for the queue's 30 s: {:?}", begun.elapsed());
    let models = send(iop.http, Call::get("/v1/models")).await.expect("the edge answers").json();
    assert_eq!(models["data"].as_array().map(Vec::len), Some(2), "both stay in the list");

    iop.start_node("gpu-b").await;
    let answer = send(iop.http, Call::chat("both", false)).await.expect("the edge answers");
    assert_eq!(answer.status, 200, "one of the two is enough: {answer:?}");
    let answer = send(iop.http, Call::chat("ornith:35b", false)).await.expect("the edge answers");
    assert_refused(&answer, 503, "provider_unavailable", &["node `gpu-a`: its node is not connected"]);
    assert_eq!(iop.stop_node("gpu-b", Signal::TERM).await, Some(0));
    let answer = send(iop.http, Call::chat("both", false)).await.expect("the edge answers");
    assert_refused(&answer, 503, "provider_unavailable", &words);
    iop.shut_down().await;
}

/// [disconnect-queue-resolution]
#[tokio::test]
async fn a_waiting_request_ends_at_once_when_its_last_node_leaves() {
    let engine = Engine::start();
    engine.hold();
    let mut iop = deploy(plan(&engine, 1)).await;
    let calls = [0, 1].map(|_| tokio::spawn(send(iop.http, Call::chat("ornith:35b", false))));
    engine.wait_held(1, DEADLINE).await;
    iop_tests::deadline::wait_until_async("one request waiting", DEADLINE, async || {
        let length = iop.snapshot().await["queue"]["length"].take();
        if length == 1 { Ok(()) } else { Err(length) }
    })
    .await;
    let begun = Instant::now();
    assert_eq!(iop.stop_node("gpu-a", Signal::TERM).await, Some(0));
    let mut codes = Vec::new();
    for call in calls {
        let answer = call.await.expect("it ended").expect("the edge answers");
        codes.push((answer.status.as_u16(), answer.json()["error"]["code"].as_str().map(str::to_owned)));
    }
    codes.sort();
    let expected = [(502, "provider_disconnected"), (503, "provider_unavailable")];
    assert_eq!(codes, expected.map(|(status, code)| (status, Some(code.to_owned()))));
    assert!(begun.elapsed() < Duration::from_secs(5), "no wait for a timeout: {:?}", begun.elapsed());
    iop.shut_down().await;
}
