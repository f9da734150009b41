//! What a node with a good certificate may say in normalized runs.

use crate::fake_node::{Node, Run};
use crate::site::{DEADLINE, Site, WORSE};
use bytes::Bytes;
use iop_tests::http::{Answer, Call, EventParser, send};
use iop_transport::codes::StreamCode;
use iop_transport::wire::{self, EVENT_FRAME_BYTES, Finish, RUN_HEAD_BYTES, RunEvent, RunReply, Usage};
use std::time::Duration;
use tokio::time::timeout;

fn started() -> Bytes {
    wire::encode(&[], &RunReply::Started, RUN_HEAD_BYTES).expect("a small head")
}

fn event(event: &RunEvent) -> Bytes {
    wire::encode(&[], event, EVENT_FRAME_BYTES).expect("an event within the limit")
}

fn finished() -> Bytes {
    event(&RunEvent::Finished { finish: Finish::Stop, usage: Usage::default() })
}

/// Ends the run where the edge has not cancelled it; obeys where it has.
async fn end(mut run: Run) {
    let quiet = Duration::from_millis(500);
    match timeout(quiet, run.recv.received_reset()).await {
        Ok(_cancelled) => run.send.reset(StreamCode::Cancelled.wire()).expect("it is open"),
        Err(_elapsed) => run.send.finish().expect("it is open"),
    }
}

/// Whether the client can tell that its answer is not a whole one.
fn is_told(answer: &Answer, stream: bool) -> bool {
    if !stream {
        return answer.status == 502 && answer.json()["error"]["code"] == "provider_error";
    }
    let events = EventParser::default().push(&answer.body);
    let failed = events.iter().any(|event| !event.json()["error"].is_null());
    failed && events.iter().all(|event| event.data != "[DONE]")
}

#[tokio::test]
async fn events_that_are_none_end_their_run_alone_and_their_client_is_told() {
    let site = Site::start().await;
    let node = Node::of(&site).await;
    let over = u32::try_from(EVENT_FRAME_BYTES + 1).expect("a small limit").to_be_bytes();
    let text = event(&RunEvent::Text("good so far".to_owned()));
    let failed = RunEvent::Failed("\u{1b}[31mred\nforged line ".repeat(30_000));
    let cases: [(&str, Vec<Bytes>); 8] = [
        ("4 GiB announced", vec![Bytes::from_static(&[0xff; 4])]),
        ("one byte over the limit", vec![text.clone(), Bytes::copy_from_slice(&over)]),
        ("an unknown event", vec![text.clone(), Bytes::from_static(&[0, 0, 0, 1, 99])]),
        ("bytes behind an event", vec![Bytes::from_static(&[0, 0, 0, 3, 0, 0, 7])]),
        ("no UTF-8", vec![Bytes::from_static(&[0, 0, 0, 3, 0, 1, 0xff])]),
        ("a vector in a chat", vec![event(&RunEvent::Embedding(vec![f32::NAN]))]),
        ("no last event", vec![text.clone()]),
        ("a long and nasty error", vec![text.clone(), event(&failed)]),
    ];
    for (what, frames) in cases {
        for stream in [false, true] {
            let edge = site.deployment.http;
            let asked = tokio::spawn(async move { send(edge, Call::chat(WORSE, stream)).await });
            let mut run = Run::next(&node.connection).await;
            // The edge may have given the run up before the last of them.
            let _cancelled = run.send.write_all(&[vec![started()], frames.clone()].concat().concat()).await;
            let ended = end(run);
            let (answer, ()) = tokio::join!(timeout(DEADLINE, asked), ended);
            let answer = answer.expect("an answer in time").expect("the client ends").expect("an answer");
            assert!(is_told(&answer, stream), "{what}, stream {stream}: {answer:?}");
            assert!(answer.body.len() < 4000, "{what}: {} bytes of an error", answer.body.len());
            assert!(!answer.text().contains('\u{1b}'), "{what}: {answer:?}");
        }
    }
    assert!(node.connection.close_reason().is_none());
    drop(node);
    site.assert_unharmed().await;
}

#[tokio::test]
async fn a_reply_in_http_to_a_normalized_run_is_none() {
    let site = Site::start().await;
    let node = Node::of(&site).await;
    let edge = site.deployment.http;
    let asked = tokio::spawn(async move { send(edge, Call::chat(WORSE, true)).await });
    let mut run = Run::next(&node.connection).await;
    let head = RunReply::Response { status: 200, headers: Vec::new() };
    let head = wire::encode(&[], &head, RUN_HEAD_BYTES).expect("a small head");
    run.send.write_all(&head).await.expect("it is written");
    let (answer, ()) = tokio::join!(asked, end(run));
    assert!(is_told(&answer.expect("the client ends").expect("an answer"), false));
    drop(node);
    site.assert_unharmed().await;
}

#[tokio::test]
async fn endless_events_are_given_up_at_the_limit_of_an_answer_or_when_the_client_leaves() {
    let site = Site::start().await;
    let node = Node::of(&site).await;
    let edge = site.deployment.http;
    let large = event(&RunEvent::Text("x".repeat(500_000)));
    let empty = Bytes::from(event(&RunEvent::Text(String::new())).repeat(10_000));
    for (frames, patience) in [(large, DEADLINE), (empty.clone(), Duration::from_secs(1))] {
        let asked = async { timeout(patience, send(edge, Call::chat(WORSE, false))).await };
        let endless = async {
            let mut run = Run::next(&node.connection).await;
            run.send.write_all(&started()).await.expect("it is written");
            let writing = async { while run.send.write_all(&frames).await.is_ok() {} };
            tokio::select! {
                () = writing => panic!("the connection was closed"),
                code = run.recv.received_reset() => assert!(code.expect("the connection stands").is_some()),
            }
            run.send.reset(StreamCode::Cancelled.wire()).expect("it is open");
        };
        let (answer, ()) = tokio::join!(asked, endless);
        if let Ok(answer) = answer {
            let answer = answer.expect("an answer");
            assert_eq!(answer.status, 502, "{} bytes", answer.body.len());
            assert!(answer.text().contains("stream it instead"), "{}", answer.text());
        }
    }
    // What comes behind the last event is no part of the answer.
    let asked = tokio::spawn(async move { send(edge, Call::chat(WORSE, true)).await });
    let mut run = Run::next(&node.connection).await;
    let whole = [started(), event(&RunEvent::Text("all".to_owned())), finished(), finished()].concat();
    run.send.write_all(&whole).await.expect("it is written");
    run.send.write_all(&event(&RunEvent::Text("more".to_owned()))).await.expect("it is written");
    run.send.finish().expect("it is open");
    let answer =
        timeout(DEADLINE, asked).await.expect("in time").expect("the client ends").expect("an answer");
    let events = EventParser::default().push(&answer.body);
    let text: String = events.iter().map(|event| event.text()).collect();
    assert_eq!(text, "all", "{events:?}");
    drop(node);
    site.assert_unharmed().await;
}
