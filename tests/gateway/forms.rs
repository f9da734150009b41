//! Bodies by their content type: forms with files, and JSON under the labels that clients give it.

use crate::lab::{DEADLINE, MODEL, UPSTREAM, chat, deploy, plan};
use bytes::Bytes;
use hyper::Method;
use iop_tests::engine::Engine;
use iop_tests::http::{Call, send};
use std::time::Duration;

const BOUNDARY: &str = "----WebKitFormBoundary7MA4YWxkTrZu0gW";

/// A form with a file of these bytes, and the model before or behind it.
fn form(file: &[u8], model: &str, model_first: bool) -> Vec<u8> {
    let field = format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n{model}\r\n");
    let head = format!(
        "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a \\\"b\\\".wav\"\r\nContent-Type: audio/wav\r\n\r\n"
    );
    let file = [head.as_bytes(), file, b"\r\n"].concat();
    let parts = if model_first { [field.into_bytes(), file] } else { [file, field.into_bytes()] };
    [&parts.concat()[..], format!("--{BOUNDARY}--\r\n").as_bytes()].concat()
}

fn post(path: &str, content_type: &str, body: Vec<u8>) -> Call {
    Call::new(Method::POST, path).header("content-type", content_type).pieces([body], Duration::ZERO)
}

fn form_type() -> String {
    format!("multipart/form-data; boundary={BOUNDARY}")
}

/// Bytes in which every beginning of a delimiter occurs.
fn noise(length: usize) -> Vec<u8> {
    let unit = format!("\r\n--{BOUNDARY}");
    let starts = (1..unit.len()).flat_map(|end| unit.as_bytes()[..end].iter().copied());
    starts.collect::<Vec<u8>>().into_iter().cycle().take(length).collect()
}

#[tokio::test]
async fn the_model_of_a_form_is_found_and_replaced_wherever_it_stands_and_nothing_else_changes() {
    let engine = Engine::start();
    let iop = deploy(plan(&engine, 1)).await;
    let paths =
        ["/v1/audio/transcriptions", "/v1/audio/translations", "/v1/images/edits", "/v1/images/variations"];
    let mut sent = Vec::new();
    for path in paths {
        for (length, model_first) in [(10_000, true), (10_000, false), (0, false)] {
            let file = noise(length);
            let call = post(path, &form_type(), form(&file, MODEL, model_first));
            let answer = send(iop.http, call).await.expect("an answer");
            assert_eq!(answer.status, 200, "{answer:?}");
            sent.push((path, form(&file, UPSTREAM, model_first)));
        }
    }
    for (number, (path, body)) in sent.into_iter().enumerate() {
        let received = engine.request(number);
        assert_eq!(received.path, path);
        assert_eq!(received.header("content-type"), form_type(), "the boundary is kept");
        assert_eq!(received.header("content-length"), body.len().to_string());
        assert!(received.body == body, "request {number} is the client's but for the model");
    }
    iop.shut_down().await;
}

#[tokio::test]
async fn a_file_of_25_mb_before_the_model_is_no_hindrance() {
    let engine = Engine::start();
    let iop = deploy(plan(&engine, 1)).await;
    let file = noise(25 << 20);
    let pieces: Vec<Bytes> = form(&file, MODEL, false).chunks(1 << 20).map(Bytes::copy_from_slice).collect();
    let call = Call::new(Method::POST, "/v1/audio/transcriptions").header("content-type", &form_type());
    let call = call.pieces(pieces, Duration::ZERO).chunked();
    let answer = tokio::time::timeout(DEADLINE, send(iop.http, call)).await.expect("in time");
    assert_eq!(answer.expect("an answer").status, 200);
    assert!(engine.request(0).body == form(&file, UPSTREAM, false));
    iop.shut_down().await;
}

#[tokio::test]
async fn a_form_that_is_none_is_refused_and_says_why() {
    let engine = Engine::start();
    let iop = deploy(plan(&engine, 1)).await;
    let good = String::from_utf8(form(b"RIFF", MODEL, false)).expect("text");
    let cases = [
        (form_type(), "{}".to_owned(), "the boundary that the content-type header names is not in the body"),
        (
            form_type(),
            good.replace(&format!("--{BOUNDARY}--"), ""),
            "the body ends before its closing boundary",
        ),
        (form_type(), good.replace("name=\"model\"", "name=\"mode\""), "the request names no `model`"),
        (
            form_type(),
            good.replace("name=\"file\"; filename", "name=\"model\"; filename"),
            "`model` must be a field, not a file",
        ),
        (form_type(), good.replace(MODEL, ""), "the request names no `model`"),
        (
            "multipart/form-data".to_owned(),
            good.clone(),
            "the content-type must name a boundary of 1 to 70 bytes",
        ),
        (
            "audio/wav".to_owned(),
            good.clone(),
            "this path takes multipart/form-data, not content-type \"audio/wav\"",
        ),
        (String::new(), good, "this path takes multipart/form-data, not content-type \"\""),
    ];
    for (content_type, body, problem) in cases {
        let call = post("/v1/audio/transcriptions", &content_type, body.into_bytes());
        let answer = send(iop.http, call).await.expect("an answer");
        let error = answer.json()["error"].take();
        assert_eq!((answer.status.as_u16(), &error["code"]), (400, &"invalid_request".into()), "{error}");
        let message = error["message"].as_str().expect("a message");
        assert!(message.ends_with(problem), "{message}");
    }
    assert_eq!(engine.look(|log| log.requests.len()), 0);
    iop.shut_down().await;
}

#[tokio::test]
async fn json_that_curl_calls_a_form_is_taken_and_reaches_the_provider_as_json() {
    let engine = Engine::start();
    let iop = deploy(plan(&engine, 1)).await;
    let body = chat(false).to_string();
    for content_type in ["application/x-www-form-urlencoded", "text/plain;charset=UTF-8", ""] {
        let call = post("/v1/chat/completions", content_type, body.clone().into_bytes());
        assert_eq!(send(iop.http, call).await.expect("an answer").status, 200, "{content_type}");
    }
    let call = post("/v1/chat/completions", "application/json; charset=utf-8", body.clone().into_bytes());
    assert_eq!(send(iop.http, call).await.expect("an answer").status, 200);
    let types: Vec<String> =
        engine.look(|log| log.scripted().map(|request| request.header("content-type").to_owned()).collect());
    let json = "application/json";
    assert_eq!(types, [json, json, json, "application/json; charset=utf-8"]);
    iop.shut_down().await;
}

#[tokio::test]
async fn a_form_or_compressed_body_on_a_json_path_is_refused_in_clear_words() {
    let engine = Engine::start();
    let iop = deploy(plan(&engine, 1)).await;
    let call = post("/v1/chat/completions", &form_type(), form(b"x", MODEL, true));
    let answer = send(iop.http, call).await.expect("an answer");
    assert_eq!(answer.status, 400);
    let message = "this path takes application/json, not content-type \"multipart/form-data\"";
    assert_eq!(answer.json()["error"]["message"], message);
    let call = post("/v1/chat/completions", "application/json", vec![0x1f, 0x8b]);
    let answer = send(iop.http, call.header("content-encoding", "gzip")).await.expect("an answer");
    assert_eq!(answer.status, 400);
    let message = "content-encoding \"gzip\" is not taken; send the body as it is";
    assert_eq!(answer.json()["error"]["message"], message);
    assert_eq!(engine.look(|log| log.requests.len()), 0);
    iop.shut_down().await;
}
