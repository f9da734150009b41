//! Answers that break off after their first byte: streams end with an error event in the dialect of their API, all else is
//! cut so that nobody takes it for complete.

use crate::lab::{MODEL, deploy, plan, wait_for_rest};
use bytes::Bytes;
use hyper::StatusCode;
use iop_tests::engine::{Cut, Engine, Reply, Script, Then};
use iop_tests::http::{Call, Streaming, open};
use serde_json::json;

/// An answer of these pieces that goes on in silence until the engine dies.
fn hanging(pieces: &[&str], content_type: &str, sized: bool) -> Script {
    let pieces: Vec<Bytes> = pieces.iter().map(|piece| Bytes::copy_from_slice(piece.as_bytes())).collect();
    let after = pieces.len();
    let pieces = [&pieces[..], &[Bytes::from("never")]].concat();
    let reply = Reply::Http { status: StatusCode::OK, pieces, sized };
    let cut = Some(Cut { after, then: Then::Hang });
    Script { reply, cut, ..Script::answer() }.header("content-type", content_type)
}

/// Reads this many bytes, then lets the engine die and come back. Returns all bytes and how they ended.
async fn read_through_death(engine: &Engine, answer: &mut Streaming, bytes: usize) -> (String, bool) {
    let mut received = Vec::new();
    while received.len() < bytes {
        let piece = answer.next().await.expect("the answer goes on").expect("a piece");
        received.extend_from_slice(&piece.bytes);
    }
    engine.crash();
    let (pieces, end) = answer.rest().await;
    received.extend(pieces.iter().flat_map(|piece| piece.bytes.to_vec()));
    engine.listen_again();
    (String::from_utf8(received).expect("text"), end.is_ok())
}

const OPENAI: &str = "data: {\"error\":{\"message\":\"the node broke the run off: the inference server broke off\",\"type\":\"server_error\",\"param\":null,\"code\":\"provider_error\"}}\n\n";
const ANTHROPIC: &str = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"the node broke the run off: the inference server broke off\"}}\n\n";
const RESPONSES: &str = "event: error\ndata: {\"type\":\"error\",\"code\":\"provider_error\",\"message\":\"the node broke the run off: the inference server broke off\",\"param\":null,\"sequence_number\":8}\n\n";

#[tokio::test]
async fn a_stream_whose_provider_dies_ends_with_one_error_event_in_its_apis_dialect() {
    let engine = Engine::start();
    let iop = deploy(plan(&engine, 1)).await;
    let chunk = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
    let cases = [
        ("/v1/chat/completions", vec![chunk, chunk], OPENAI),
        ("/v1/chat/completions", vec![": comment\n\n"], OPENAI),
        ("/v1/completions", vec!["data: {\"choices\":[{\"text\":\"a\"}]}\n\n"], OPENAI),
        (
            "/v1/responses",
            vec!["event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":7}\n\n"],
            RESPONSES,
        ),
        ("/v1/messages", vec!["event: ping\ndata: {\"type\":\"ping\"}\n\n"], ANTHROPIC),
    ];
    for (path, pieces, event) in cases {
        let sent = pieces.concat();
        engine.queue_scripts([hanging(&pieces, "text/event-stream; charset=utf-8", false)]);
        let call = Call::post(path, &json!({"model": MODEL, "stream": true}));
        let mut stream = open(iop.http, call).await.expect("the stream begins");
        assert_eq!(stream.status, 200);
        let (received, is_clean) = read_through_death(&engine, &mut stream, sent.len()).await;
        assert_eq!(received, format!("{sent}{event}"), "{path}");
        assert!(is_clean, "the error event is the end, and a clean one");
    }
    wait_for_rest(&iop).await;
    iop.shut_down().await;
}

#[tokio::test]
async fn an_event_that_was_cut_in_its_middle_does_not_swallow_the_error() {
    let engine = Engine::start();
    let iop = deploy(plan(&engine, 1)).await;
    let sent = "data: {\"choices\":";
    engine.set_script(hanging(&[sent], "text/event-stream", false));
    let mut stream = open(iop.http, Call::chat(MODEL, true)).await.expect("the stream begins");
    let (received, is_clean) = read_through_death(&engine, &mut stream, sent.len()).await;
    assert_eq!((received, is_clean), (format!("{sent}\n\n{OPENAI}"), true));
    iop.shut_down().await;
}

#[tokio::test]
async fn any_other_answer_that_breaks_off_is_cut_and_never_looks_complete() {
    let engine = Engine::start();
    let iop = deploy(plan(&engine, 1)).await;
    for (path, content_type) in
        [("/v1/chat/completions", "application/json"), ("/v1/audio/speech", "audio/mpeg")]
    {
        for sized in [true, false] {
            let sent = "{\"a\":";
            engine.queue_scripts([hanging(&[sent], content_type, sized)]);
            let call = Call::post(path, &json!({"model": MODEL}));
            let mut answer = open(iop.http, call).await.expect("the answer begins");
            let (received, is_clean) = read_through_death(&engine, &mut answer, sent.len()).await;
            assert_eq!(
                (received.as_str(), is_clean),
                (sent, false),
                "{path}, declared {sized}: nothing is added"
            );
        }
    }
    wait_for_rest(&iop).await;
    iop.shut_down().await;
}

#[tokio::test]
async fn an_answer_that_has_begun_is_never_begun_again_elsewhere() {
    let (first, second) = (Engine::start(), Engine::start());
    let sent = "data: {\"choices\":[{\"delta\":{\"content\":\"once\"}}]}\n\n";
    for engine in [&first, &second] {
        engine.set_script(hanging(&[sent], "text/event-stream", false));
    }
    let plan = plan(&first, 1).provider("gpu-a", "other", &second.endpoint(), 1).model(
        "both",
        &[("gpu-a", "engine"), ("gpu-a", "other")],
        "scripted",
    );
    let iop = deploy(plan.edge_value("/nodes/0/providers/0/priority", json!(1))).await;
    let mut stream = open(iop.http, Call::chat("both", true)).await.expect("the stream begins");
    let (received, is_clean) = read_through_death(&first, &mut stream, sent.len()).await;
    assert_eq!((received, is_clean), (format!("{sent}{OPENAI}"), true));
    assert_eq!((first.look(|log| log.requests.len()), second.look(|log| log.requests.len())), (1, 0));
    wait_for_rest(&iop).await;
    iop.shut_down().await;
}
