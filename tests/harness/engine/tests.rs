//! The engine proves itself: a harness that counts wrong would pass broken products.

use super::*;
use crate::http::{Answer, Call, Connection, EventParser, RawConnection, Streaming, open, send};
use bytes::Bytes;
use tokio::task::JoinSet;

const DEADLINE: Duration = Duration::from_secs(10);

fn chat() -> Call {
    Call::chat("m", false)
}

fn stream() -> Call {
    Call::chat("m", true)
}

fn start_calls(engine: &Engine, count: usize) -> JoinSet<Answer> {
    let mut calls = JoinSet::new();
    for _ in 0..count {
        let address = engine.address();
        calls.spawn(async move { send(address, chat()).await.expect("the engine answers") });
    }
    calls
}

async fn text_of(mut streaming: Streaming) -> String {
    let (events, end) = streaming.events().await;
    end.expect("a clean end");
    assert_eq!(events.last().expect("events came").0.data, "[DONE]");
    events.iter().map(|(event, _)| event.text()).collect()
}

#[tokio::test]
async fn peak_counts_requests_that_overlap() {
    let engine = Engine::start();
    engine.hold();
    let mut calls = start_calls(&engine, 3);
    engine.wait_held(3, DEADLINE).await;
    assert_eq!((engine.in_progress(), engine.peak()), (3, 3));
    engine.release_all();
    while let Some(call) = calls.join_next().await {
        assert_eq!(call.expect("the call ended").status, 200);
    }
    assert_eq!((engine.in_progress(), engine.peak()), (0, 3));
}

#[tokio::test]
async fn peak_stays_one_for_requests_that_follow_at_once_on_new_connections() {
    let engine = Engine::start();
    for _ in 0..200 {
        assert_eq!(send(engine.address(), chat()).await.expect("an answer").status, 200);
    }
    assert_eq!((engine.peak(), engine.in_progress()), (1, 0));
    assert_eq!(engine.look(|log| (log.requests.len(), log.connections_opened)), (200, 200));
}

#[tokio::test]
async fn peak_stays_one_for_streams_that_follow_at_once() {
    let engine = Engine::start();
    for _ in 0..50 {
        text_of(open(engine.address(), stream()).await.expect("an answer")).await;
    }
    assert_eq!(engine.peak(), 1);
}

#[tokio::test]
async fn gets_are_recorded_but_take_no_slot_and_no_script() {
    let engine = Engine::start();
    engine.set_script(Script::status(503).held());
    let models = send(engine.address(), Call::get("/v1/models")).await.expect("an answer");
    assert_eq!(models.json()["data"][0]["id"], "scripted");
    assert_eq!(engine.peak(), 0);
    assert_eq!(engine.request(0).path, "/v1/models");
}

#[tokio::test]
async fn held_requests_go_one_by_one_in_order_of_arrival() {
    let engine = Engine::start();
    engine.hold();
    let mut calls = JoinSet::new();
    for index in 0..3_usize {
        let address = engine.address();
        calls.spawn(async move { (index, send(address, chat()).await.expect("an answer").status) });
        engine.wait_held(index + 1, DEADLINE).await;
    }
    for index in 0..3 {
        assert_eq!(engine.release_one(), index);
        let (ended, status) = calls.join_next().await.expect("one more call").expect("it ended");
        assert_eq!((ended, status.as_u16()), (index, 200));
        assert_eq!(engine.held(), 2 - index);
    }
}

#[tokio::test]
async fn a_held_client_that_leaves_is_seen_and_passed_over() {
    let engine = Engine::start();
    engine.hold();
    let address = engine.address();
    let leaving = tokio::spawn(async move { send(address, chat()).await });
    engine.wait_held(1, DEADLINE).await;
    let staying = tokio::spawn(async move { send(address, chat()).await });
    engine.wait_held(2, DEADLINE).await;
    leaving.abort();
    assert!(engine.wait_closed(0, DEADLINE).await.broken_off());
    engine.wait_held(1, DEADLINE).await;
    assert_eq!(engine.release_one(), 1);
    assert_eq!(staying.await.expect("it ended").expect("an answer").status, 200);
    assert_eq!(engine.in_progress(), 0);
}

#[tokio::test]
async fn a_close_is_seen_before_headers_in_mid_stream_and_in_silence() {
    let scripts = [
        Script::silence(),
        Script::answer().cut(1, Then::Hang),
        Script::stream(3, Duration::ZERO).cut(2, Then::Hang),
        Script::stream(usize::MAX / 2, Duration::from_millis(5)),
        Script::answer().delayed(Duration::from_secs(600)),
    ];
    for script in scripts {
        let shown = format!("{script:?}");
        let engine = Engine::start();
        engine.set_script(script);
        let mut raw = RawConnection::open(engine.address()).await.expect("a connection");
        raw.send(format!("POST {CHAT_STREAM}")).await.expect("sent");
        engine
            .wait_until("the whole request", DEADLINE, |log| log.requests.iter().any(|it| it.body_complete))
            .await;
        assert_eq!(engine.in_progress(), 1, "{shown}");
        let left = std::time::Instant::now();
        drop(raw);
        let request = engine.wait_closed(0, Duration::from_secs(1)).await;
        assert!(request.broken_off(), "{shown}");
        assert!(request.closed.expect("it is closed") >= left, "{shown}");
        assert_eq!((engine.in_progress(), engine.look(|log| log.connections_open)), (0, 0), "{shown}");
    }
}

const CHAT_STREAM: &str =
    "/v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 15\r\n\r\n{\"stream\":true}";

#[tokio::test]
async fn a_client_that_does_not_read_keeps_its_request_in_progress() {
    let engine = Engine::start();
    let big = 8 * 1024 * 1024;
    engine.set_script(Script::body(vec![b'x'; big]));
    let mut slow = open(engine.address(), chat()).await.expect("headers");
    assert_eq!(engine.in_progress(), 1);
    let (pieces, end) = slow.rest().await;
    end.expect("a clean end");
    assert_eq!(pieces.iter().map(|piece| piece.bytes.len()).sum::<usize>(), big);
    engine.wait_answered(0, DEADLINE).await;
    assert_eq!(engine.in_progress(), 0);
}

#[tokio::test]
async fn death_in_a_stream_is_no_clean_end_and_what_came_before_arrives() {
    for then in [Then::Close, Then::Reset] {
        let engine = Engine::start();
        engine.set_script(Script::stream(5, Duration::ZERO).cut(2, then));
        let mut streaming = open(engine.address(), stream()).await.expect("headers");
        let (events, end) = streaming.events().await;
        assert!(end.is_err(), "{then:?} should be no clean end");
        if then == Then::Close {
            assert_eq!(events.iter().map(|(event, _)| event.text()).collect::<String>(), "0 1 ");
        }
        assert!(engine.wait_closed(0, DEADLINE).await.broken_off());
    }
}

#[tokio::test]
async fn death_in_a_declared_body_leaves_it_short() {
    let engine = Engine::start();
    engine.set_script(Script::answer().cut(1, Then::Close));
    let mut raw = RawConnection::open(engine.address()).await.expect("a connection");
    raw.send("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}")
        .await
        .expect("sent");
    let answer = raw.read_to_end().await.expect("an orderly close");
    let (head, body) = answer.split_once("\r\n\r\n").expect("headers came");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
    let length: usize = length.parse().expect("a number");
    assert!(!body.is_empty() && body.len() < length, "{} of {length} bytes", body.len());
}

#[tokio::test]
async fn a_reset_is_a_reset() {
    let engine = Engine::start();
    engine.set_script(Script::no_answer().cut(0, Then::Reset));
    let mut raw = RawConnection::open(engine.address()).await.expect("a connection");
    raw.send("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n").await.expect("sent");
    let error = raw.read_to_end().await.expect_err("a reset");
    assert!(format!("{error:#}").contains("reset"), "{error:#}");
}

#[tokio::test]
async fn raw_bytes_arrive_as_they_are() {
    let ask = "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n";
    let bytes = "HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nshort";
    let engine = Engine::start();
    engine.queue_scripts([Script::raw(bytes), Script::no_answer()]);
    for expected in [bytes, ""] {
        let mut raw = RawConnection::open(engine.address()).await.expect("a connection");
        raw.send(ask).await.expect("sent");
        assert_eq!(raw.read_to_end().await.expect("an orderly close"), expected);
    }
    engine.set_script(Script::garbage());
    send(engine.address(), chat()).await.expect_err("garbage is no answer");
}

#[tokio::test]
async fn a_stream_keeps_its_interval_and_its_text() {
    let interval = Duration::from_millis(40);
    let script = Script::stream(6, interval);
    let engine = Engine::start();
    engine.set_script(script.clone());
    let mut streaming = open(engine.address(), stream()).await.expect("headers");
    assert_eq!(streaming.headers["content-type"], "text/event-stream");
    let (events, end) = streaming.events().await;
    end.expect("a clean end");
    assert_eq!(events.iter().map(|(event, _)| event.text()).collect::<String>(), script.text());
    let spread = events[5].1 - events[0].1;
    // Five gaps; the first piece may be read late, by one gap at most on any machine that runs tests at all.
    assert!(spread >= interval * 4, "five gaps took {spread:?}");
}

#[tokio::test]
async fn a_stream_held_in_its_middle_goes_on_when_released() {
    let engine = Engine::start();
    engine.set_script(Script::answer().cut(1, Then::Hold));
    let mut streaming = open(engine.address(), stream()).await.expect("headers");
    let first = streaming.next().await.expect("a piece").expect("not the end");
    assert!(String::from_utf8_lossy(&first.bytes).contains("\"0 \""));
    engine.wait_held(1, DEADLINE).await;
    assert_eq!(engine.request(0).answered, None);
    engine.release_one();
    assert_eq!(text_of(streaming).await, "1 2 ");
    engine.wait_answered(0, DEADLINE).await;
}

#[tokio::test]
async fn every_path_answers_in_its_own_shape() {
    let engine = Engine::start();
    let body = serde_json::json!({"model": "m", "input": ["a", "b"], "prompt": "a"});
    let cases = [
        ("/v1/chat/completions", "/choices/0/message/content"),
        ("/v1/completions", "/choices/0/text"),
        ("/v1/embeddings", "/data/1/embedding/7"),
        ("/v1/rerank", "/path"),
    ];
    for (path, pointer) in cases {
        let answer = send(engine.address(), Call::post(path, &body)).await.expect("an answer");
        assert_eq!(answer.header("content-type"), "application/json");
        assert!(answer.json().pointer(pointer).is_some(), "{path}: {}", answer.text());
    }
    let missing = send(engine.address(), Call::get("/nowhere")).await.expect("an answer");
    assert_eq!(missing.status, 404);
    assert_eq!(engine.look(|log| log.requests[1].json()), body);
    let call = Call::post("/v1/completions", &serde_json::json!({"stream": true}));
    assert_eq!(text_of(open(engine.address(), call).await.expect("headers")).await, "0 1 2 ");
}

#[tokio::test]
async fn usage_comes_when_it_is_asked_for() {
    let engine = Engine::start();
    let body = serde_json::json!({"stream": true, "stream_options": {"include_usage": true}});
    let mut streaming =
        open(engine.address(), Call::post("/v1/chat/completions", &body)).await.expect("headers");
    let (events, _) = streaming.events().await;
    assert_eq!(events[events.len() - 2].0.json()["usage"]["completion_tokens"], 3);
    assert_eq!(events.len(), 6);
}

#[tokio::test]
async fn statuses_and_headers_are_as_scripted_and_scripts_are_used_in_order() {
    let engine = Engine::start();
    engine.queue_scripts([Script::status(429).header("retry-after", "1"), Script::status(503)]);
    let mut connection = Connection::open(engine.address()).await.expect("a connection");
    let mut statuses = Vec::new();
    for _ in 0..3 {
        let answer = connection.send(chat()).await.expect("an answer");
        statuses.push((answer.status.as_u16(), answer.header("retry-after").to_owned()));
    }
    let expected = [(429, "1"), (503, ""), (200, "")].map(|(status, after)| (status, after.to_owned()));
    assert_eq!(statuses, expected);
    assert_eq!(engine.look(|log| log.connections_opened), 1);
}

#[tokio::test]
async fn a_request_body_is_recorded_as_it_comes() {
    let engine = Engine::start();
    let address = engine.address();
    let call =
        Call::new(hyper::Method::POST, "/x").pieces(["ab", "cd"], Duration::from_millis(100)).chunked();
    let sending = tokio::spawn(async move { send(address, call).await });
    engine.wait_until("the first half", DEADLINE, |log| log.requests.iter().any(|it| it.body == b"ab")).await;
    assert!(!engine.request(0).body_complete);
    sending.await.expect("it ended").expect("an answer");
    assert_eq!(engine.request(0).body, b"abcd");
    assert_eq!(engine.request(0).header("transfer-encoding"), "chunked");
}

#[tokio::test]
async fn a_crashed_engine_drops_its_connections_and_refuses_new_ones_until_it_listens_again() {
    let engine = Engine::start();
    engine.set_script(Script::silence());
    let address = engine.address();
    let waiting = tokio::spawn(async move { send(address, chat()).await });
    engine.wait_received(1, DEADLINE).await;
    engine.crash();
    assert!(engine.request(0).broken_off());
    assert_eq!(engine.in_progress(), 0);
    waiting.await.expect("it ended").expect_err("its connection was dropped");
    let error = RawConnection::open(address).await.expect_err("nobody listens");
    assert!(format!("{error:#}").contains("refused"), "{error:#}");

    engine.refuse_connections();
    let mut raw = RawConnection::open(address).await.expect("it accepts");
    assert_eq!(raw.read_to_end().await.expect("an orderly close"), "");
    assert_eq!(engine.look(|log| log.requests.len()), 1);

    engine.listen_again();
    engine.set_script(Script::body(Bytes::from_static(b"back")));
    assert_eq!(send(address, chat()).await.expect("an answer").text(), "back");
}

#[tokio::test]
async fn a_stepped_answer_sends_each_piece_only_when_it_is_let_go() {
    let engine = Engine::start();
    engine.set_script(Script::stream(3, Duration::ZERO).stepped());
    let mut stream = open(engine.address(), Call::chat("m", true)).await.expect("headers");
    let mut parser = EventParser::default();
    // Three chunks, the last one with the reason of the end, and [DONE].
    for number in 0..5 {
        if number > 0 {
            engine.wait_held(1, DEADLINE).await;
            engine.release_one();
        }
        let piece = stream.next().await.expect("a piece").expect("not the end");
        assert_eq!(parser.push(&piece.bytes).len(), 1, "one event at step {number}");
    }
    assert!(stream.next().await.expect("a clean end").is_none());
    engine.wait_idle(DEADLINE).await;
}

#[tokio::test]
async fn the_list_of_models_can_be_set() {
    let engine = Engine::start();
    for ids in [&["scripted"][..], &["a", "org/b:q4"], &[]] {
        if ids != ["scripted"] {
            engine.set_models(ids);
        }
        let list = send(engine.address(), Call::get("/v1/models")).await.expect("an answer").json();
        let listed: Vec<&str> = list["data"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|model| model["id"].as_str())
            .collect();
        assert_eq!(listed, ids);
    }
}
