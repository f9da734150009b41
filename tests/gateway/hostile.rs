//! Bodies that are wrong in every way that clients manage: each is answered 400 in clear words, none reaches a provider,
//! none takes anything that is not given back.

use crate::lab::{DEADLINE, MODEL, chat, deploy, plan, wait_for_rest};
use hyper::Method;
use iop_tests::deployment::Deployment;
use iop_tests::engine::Engine;
use iop_tests::http::{Call, send};
use std::time::Duration;

fn post(body: impl Into<Vec<u8>>) -> Call {
    let call = Call::new(Method::POST, "/v1/chat/completions").header("content-type", "application/json");
    call.pieces([body.into()], Duration::ZERO)
}

async fn assert_refused(iop: &Deployment, call: Call, problem: &str) {
    let answer = tokio::time::timeout(DEADLINE, send(iop.http, call)).await.expect("an answer in time");
    let answer = answer.expect("an answer");
    let error = answer.json()["error"].take();
    assert_eq!((answer.status.as_u16(), &error["code"]), (400, &"invalid_request".into()), "{error}");
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains(problem), "{message:?} should say {problem:?}");
}

#[tokio::test]
async fn a_body_that_cannot_be_right_is_refused_and_says_where() {
    let engine = Engine::start();
    let iop = deploy(plan(&engine, 1)).await;
    let deep = |open: &str, close: &str, depth: usize| {
        format!("{{\"model\":\"{MODEL}\",\"x\":{}1{}}}", open.repeat(depth), close.repeat(depth))
    };
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (b"".into(), "byte 0: the body ends before its JSON object is complete"),
        (b"{".into(), "byte 1: the body ends"),
        (b"nonsense".into(), "byte 0: "),
        (b"\"text\"".into(), "the body must be a JSON object"),
        (b"[]".into(), "the body must be a JSON object"),
        (b"null".into(), "the body must be a JSON object"),
        (b"{\"model\":\"m\",}".into(), "expected a key"),
        (b"{\"model\":\"m\"} {}".into(), "nothing after the object"),
        (b"{}".into(), "the request names no `model`"),
        (b"{\"model\":\"\"}".into(), "the request names no `model`"),
        (b"{\"messages\":[{\"model\":\"m\"}]}".into(), "the request names no `model`"),
        (b"{\"model\":\"a\",\"model\":\"b\"}".into(), "\"model\" is given twice"),
        (b"{\"model\":\"a\",\"mod\\u0065l\":\"b\"}".into(), "\"model\" is given twice"),
        (b"{\"model\":1}".into(), "\"model\" must be a string"),
        (b"{\"model\":null}".into(), "\"model\" must be a string"),
        (b"{\"model\":[\"m\"]}".into(), "\"model\" must be a string"),
        (b"{\"model\":\"m\",\"stream\":\"yes\"}".into(), "\"stream\" must be true or false"),
        (b"{\"model\":\"m\xff\"}".into(), "not valid UTF-8"),
        (b"{\"model\":\"\\ud800\"}".into(), "surrogate"),
        (b"\xef\xbb\xbf{}".into(), "byte 0: "),
        (b"model=m&stream=true".into(), "byte 0: "),
        (deep("[", "]", 200).into(), "nested deeper than 127 levels"),
        (deep("[", "]", 1_000_000).into(), "nested deeper than 127 levels"),
        (deep("{\"a\":", "}", 100_000).into(), "nested deeper than 127 levels"),
        (format!("{{\"model\":\"{}\"}}", "m".repeat(600)).into(), "longer than 512 bytes"),
    ];
    for (body, problem) in cases {
        assert_refused(&iop, post(body.clone()), problem).await;
        assert_refused(&iop, post(body).chunked(), problem).await;
    }
    let call = Call::post("/v1/chat/completions", &chat(false)).header("x-iop-context", "huge");
    assert_refused(&iop, call, "x-iop-context must be `long` or `normal`").await;
    assert_eq!(engine.look(|log| log.requests.len()), 0);
    let leases = iop.snapshot().await["leases"].take();
    assert_eq!(leases["acquired_total"], 0, "{leases}");
    iop.shut_down().await;
}

#[tokio::test]
async fn a_slow_upload_is_waited_for_and_arrives_whole() {
    let engine = Engine::start();
    let iop = deploy(plan(&engine, 1)).await;
    let body = chat(false).to_string();
    let pieces: Vec<Vec<u8>> = body.as_bytes().chunks(8).map(<[u8]>::to_vec).collect();
    let call = post("").pieces(pieces, Duration::from_millis(100)).chunked();
    let answer = send(iop.http, call).await.expect("an answer");
    assert_eq!(answer.status, 200);
    // The same up to the model, which has another name there.
    assert_eq!(engine.request(0).json()["messages"], chat(false)["messages"]);
    wait_for_rest(&iop).await;
    iop.shut_down().await;
}

#[tokio::test]
async fn a_refused_body_is_read_to_its_end_so_that_the_client_sees_the_refusal() {
    let engine = Engine::start();
    let iop = deploy(plan(&engine, 1)).await;
    // Far beyond what sockets hold: a connection that was closed would be reset under the client's hands.
    let mut body = b"{\"model\":1,".to_vec();
    body.resize(40 << 20, b' ');
    assert_refused(&iop, post(body), "\"model\" must be a string").await;
    iop.shut_down().await;
}
