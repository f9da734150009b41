//! Which paths there are, how they are spelled, and what a provider's own refusal on one of them does.

use crate::lab::{MODEL, UPSTREAM, chat, deploy, plan};
use hyper::Method;
use iop_tests::engine::{Engine, Script};
use iop_tests::http::{Call, RawConnection, send};
use serde_json::json;

/// Every path whose body is JSON.
const JSON_PATHS: [&str; 11] = [
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/responses",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/moderations",
    "/v1/rerank",
    "/v2/rerank",
    "/v1/images/generations",
    "/v1/audio/speech",
];

#[tokio::test]
async fn every_path_with_a_model_reaches_the_provider_under_its_own_name() {
    let engine = Engine::start();
    let iop = deploy(plan(&engine, 1)).await;
    for path in JSON_PATHS {
        let call = Call::post(path, &json!({"model": MODEL, "input": "x"}));
        let answer = send(iop.http, call).await.expect("an answer");
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
    }
    let received: Vec<(String, String)> = engine.look(|log| {
        let model = |value: serde_json::Value| value["model"].as_str().unwrap_or_default().to_owned();
        log.scripted().map(|request| (request.path.clone(), model(request.json()))).collect()
    });
    let expected = JSON_PATHS.map(|path| (path.to_owned(), UPSTREAM.to_owned()));
    assert_eq!(received, expected);
    iop.shut_down().await;
}

#[tokio::test]
async fn a_path_or_method_that_is_not_there_is_named() {
    let engine = Engine::start();
    let iop = deploy(plan(&engine, 1)).await;
    let cases = [
        (
            Method::POST,
            "/v1/chat%2Fcompletions",
            404,
            "not_found",
            "there is nothing at /v1/chat%2Fcompletions",
        ),
        (
            Method::POST,
            "//v1/chat/completions",
            404,
            "not_found",
            "there is nothing at //v1/chat/completions",
        ),
        (
            Method::POST,
            "/v1/../v1/chat/completions",
            404,
            "not_found",
            "there is nothing at /v1/../v1/chat/completions",
        ),
        (
            Method::POST,
            "/v1/chat/completions/",
            404,
            "not_found",
            "there is nothing at /v1/chat/completions/",
        ),
        (Method::GET, "/", 404, "not_found", "there is nothing at /"),
        (
            Method::GET,
            "/v1/models/no%2Fsuch",
            404,
            "model_not_found",
            "the model `no/such` does not exist on this edge",
        ),
        (Method::GET, "/v1/chat/completions", 405, "method_not_allowed", "GET is not a method of this path"),
        (Method::PUT, "/v1/chat/completions", 405, "method_not_allowed", "PUT is not a method of this path"),
        (Method::DELETE, "/v1/models/x", 405, "method_not_allowed", "DELETE is not a method of this path"),
        (Method::TRACE, "/v1/models", 405, "method_not_allowed", "TRACE is not a method of this path"),
    ];
    for (method, path, status, code, message) in cases {
        let answer = send(iop.http, Call::new(method, path)).await.expect("an answer");
        let error = answer.json()["error"].take();
        assert_eq!((answer.status.as_u16(), &error["code"]), (status, &code.into()), "{path}");
        assert_eq!(error["message"], message);
        let allow = ["", "POST", "GET, HEAD"];
        assert!(
            allow.contains(&answer.header("allow")) && (status == 405) != answer.header("allow").is_empty()
        );
    }
    assert_eq!(engine.look(|log| log.requests.len()), 0);
    iop.shut_down().await;
}

#[tokio::test]
async fn the_absolute_form_and_a_query_are_taken_and_a_method_in_a_header_is_not() {
    let engine = Engine::start();
    let iop = deploy(plan(&engine, 1)).await;
    let body = chat(false).to_string();
    let mut connection = RawConnection::open(iop.http).await.expect("the edge listens");
    let head = format!(
        "POST http://elsewhere.example/v1/chat/completions?a=%2F HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\nx-http-method-override: DELETE\r\nconnection: close\r\n\r\n",
        body.len()
    );
    connection.send(format!("{head}{body}")).await.expect("sent");
    let answer = connection.read_to_end().await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    let received = engine.request(0);
    assert_eq!((received.method.as_str(), received.path.as_str()), ("POST", "/v1/chat/completions?a=%2F"));
    assert_eq!(received.header("x-http-method-override"), "");
    let call = Call::get("/v1/chat/completions").header("x-http-method-override", "POST");
    assert_eq!(send(iop.http, call).await.expect("an answer").status, 405);
    iop.shut_down().await;
}

#[tokio::test]
async fn models_are_found_under_ids_with_slashes_colons_and_escapes() {
    let engine = Engine::start();
    let plan = plan(&engine, 1).model("org/name:q4", &[("gpu-a", "engine")], "x");
    let iop = deploy(plan.edge_value("/models/1/context_length", json!(4096))).await;
    for path in ["/v1/models/org/name:q4", "/v1/models/org%2Fname%3Aq4"] {
        let model = send(iop.http, Call::get(path)).await.expect("an answer").json();
        assert_eq!((&model["id"], &model["object"]), (&json!("org/name:q4"), &json!("model")));
        assert_eq!((&model["context_length"], &model["owned_by"]), (&json!(4096), &json!("iop")));
        assert!(model["created"].as_u64().expect("a time") > 1_600_000_000, "{model}");
        let head = send(iop.http, Call::new(Method::HEAD, path)).await.expect("an answer");
        assert_eq!((head.status.as_u16(), head.body.len()), (200, 0));
        assert_eq!(head.header("content-length"), model.to_string().len().to_string());
    }
    let list = send(iop.http, Call::get("/v1/models")).await.expect("an answer").json();
    assert_eq!((&list["object"], list["data"].as_array().map(Vec::len)), (&json!("list"), Some(2)));
    iop.shut_down().await;
}

#[tokio::test]
async fn a_providers_404_is_the_clients_answer_and_takes_nobody_out() {
    let engine = Engine::start();
    let iop = deploy(plan(&engine, 1)).await;
    for status in [404, 400, 422, 500] {
        engine.queue_scripts([Script::status(status)]);
        let call = Call::post("/v1/messages/count_tokens", &json!({"model": MODEL, "messages": []}));
        let answer = send(iop.http, call).await.expect("an answer");
        assert_eq!((answer.status.as_u16(), &answer.json()["error"]["type"]), (status, &json!("scripted")));
        let answer = send(iop.http, Call::chat(MODEL, false)).await.expect("an answer");
        assert_eq!(answer.status, 200, "after a {status}");
    }
    let provider = iop.snapshot().await["nodes"][0]["providers"][0].take();
    assert_eq!(provider["status"], "available", "{provider}");
    iop.shut_down().await;
}
