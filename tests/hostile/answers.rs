//! What a node with a good certificate may answer to the runs it is given.

use crate::fake_node::{Node, Run, assert_closed};
use crate::site::{BAD, DEADLINE, HOSTILE, Site};
use bytes::Bytes;
use iop_tests::http::{Answer, Call, open, send};
use iop_transport::codes::{CloseCode, StreamCode};
use iop_transport::wire::{self, RUN_HEAD_BYTES, Refusal, RefusalReason, RunReply};
use serde_json::json;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long the edge waits for the end of a run that it has cancelled.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(10);

/// How an answer ends.
#[derive(Debug, Clone, Copy)]
enum End {
    Fin,
    Reset(u32),
    /// It does not: the edge must cancel the run.
    Open,
}

fn ask(edge: SocketAddr, stream: bool) -> JoinHandle<Result<Answer, String>> {
    let asked =
        async move { send(edge, Call::chat(BAD, stream)).await.map_err(|error| format!("{error:#}")) };
    tokio::spawn(asked)
}

async fn answer(asked: JoinHandle<Result<Answer, String>>) -> Result<Answer, String> {
    timeout(DEADLINE, asked).await.expect("an answer in time").expect("the client ends")
}

fn response(status: u16, headers: &[(&str, &str)]) -> Bytes {
    let headers = headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), Bytes::copy_from_slice(value.as_bytes())))
        .collect();
    wire::encode(&[], &RunReply::Response { status, headers }, RUN_HEAD_BYTES).expect("a small head")
}

fn refused(detail: String) -> Bytes {
    let refusal = Refusal { reason: RefusalReason::Busy, detail };
    wire::encode(&[], &RunReply::Refused(refusal), RUN_HEAD_BYTES).expect("a head within the limit")
}

fn announced(length: u32, bytes: &[u8]) -> Bytes {
    [&length.to_be_bytes()[..], bytes].concat().into()
}

#[tokio::test]
async fn replies_that_are_none_cost_their_client_a_502_and_nobody_else_anything() {
    let site = Site::start().await;
    let node = Node::of(&site).await;
    let over = u32::try_from(RUN_HEAD_BYTES + 1).expect("a small limit");
    let started = wire::encode(&[], &RunReply::Started, RUN_HEAD_BYTES).expect("a small head");
    let cases: [(&str, Bytes, End); 11] = [
        ("4 GiB announced", announced(u32::MAX, b"x"), End::Open),
        ("one byte over the limit", announced(over, b"x"), End::Open),
        ("garbage", announced(3, &[9, 9, 9]), End::Open),
        ("an empty head", announced(0, b""), End::Open),
        ("bytes behind the head", announced(4, &[1, 1, 1, 1]), End::Open),
        (
            "a list of 2^64 headers",
            announced(11, &[0, 200, 0xfd, 255, 255, 255, 255, 255, 255, 255, 255]),
            End::Open,
        ),
        ("the other kind of run", started, End::Open),
        ("no head", Bytes::new(), End::Fin),
        ("half a head", announced(100, b"half"), End::Fin),
        ("an unknown code", Bytes::new(), End::Reset(0x3fff_ffff)),
        ("a code of the edge's", Bytes::new(), End::Reset(StreamCode::Done as u32)),
    ];
    for (what, bytes, end) in cases {
        let asked = ask(site.deployment.http, false);
        let run = Run::next(&node.connection).await;
        run.finish_with(&bytes, end).await;
        let answer = answer(asked).await.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(answer.status, 502, "{what}: {answer:?}");
        assert_eq!(answer.json()["error"]["code"], "provider_error", "{what}: {answer:?}");
    }
    assert!(node.connection.close_reason().is_none(), "a broken run does not end its connection");
    drop(node);
    site.assert_unharmed().await;
}

impl Run {
    /// Answers with these bytes. Where they have no end, obeys the edge's cancel.
    async fn finish_with(mut self, bytes: &Bytes, end: End) {
        // The edge may have cancelled before the last byte.
        let _cancelled = self.send.write_all(bytes).await;
        match end {
            End::Fin => self.send.finish().expect("it is open"),
            End::Reset(code) => self.send.reset(code.into()).expect("it is open"),
            End::Open => self.obey().await,
        }
    }

    /// Waits for the edge's cancel and ends the run as a node should.
    async fn obey(mut self) {
        let cancel = timeout(DEADLINE, self.recv.received_reset()).await.expect("a cancel in time");
        let code = cancel.expect("the connection stands").expect("a code");
        assert!(StreamCode::from_wire(code).is_some(), "{code}");
        self.send.reset(StreamCode::Cancelled.wire()).expect("it is open");
    }
}

#[tokio::test]
async fn http_that_is_none_is_kept_from_the_client() {
    let site = Site::start().await;
    let node = Node::of(&site).await;
    for status in [0, 99, 100, 101, 199, 1000, u16::MAX] {
        let asked = ask(site.deployment.http, false);
        Run::next(&node.connection).await.finish_with(&response(status, &[]), End::Fin).await;
        let answer = answer(asked).await.unwrap_or_else(|error| panic!("{status}: {error}"));
        assert_eq!(answer.status, 502, "status {status}");
    }
    let headers = [
        ("Transfer-Encoding", "chunked"),
        ("Connection", "close, x-a"),
        ("Set-Cookie", "a=b"),
        ("Access-Control-Allow-Origin", "*"),
        ("X-Split", "a\r\nforged: b"),
        ("bad name", "x"),
        ("X-Good", "kept"),
        ("Content-Length", "5"),
    ];
    let asked = ask(site.deployment.http, false);
    let bytes = [response(200, &headers), Bytes::from_static(b"hello and more")].concat().into();
    Run::next(&node.connection).await.finish_with(&bytes, End::Fin).await;
    let whole = answer(asked).await.expect("an answer");
    assert_eq!((whole.status.as_u16(), &whole.body[..]), (200, &b"hello"[..]));
    assert_eq!(whole.header("x-good"), "kept");
    for name in
        ["transfer-encoding", "connection", "set-cookie", "access-control-allow-origin", "x-split", "forged"]
    {
        assert!(!whole.headers.contains_key(name), "{name}: {:?}", whole.headers);
    }

    let short = [response(200, &[("content-length", "10")]), Bytes::from_static(b"hello")].concat().into();
    let asked = ask(site.deployment.http, false);
    Run::next(&node.connection).await.finish_with(&short, End::Fin).await;
    answer(asked).await.expect_err("less than was declared is visibly cut");

    let names: Vec<String> = (0..9000).map(|number| format!("{number:x}")).collect();
    let many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    for headers in [&many[..], &[("content-length", "1"), ("content-length", "2")]] {
        let asked = ask(site.deployment.http, false);
        let bytes = [response(200, headers), Bytes::from_static(b"x")].concat().into();
        Run::next(&node.connection).await.finish_with(&bytes, End::Fin).await;
        // Whether the client can read it is its own business; the edge does not fail.
        drop(answer(asked).await);
    }
    drop(node);
    site.assert_unharmed().await;
}

#[tokio::test]
async fn the_words_of_a_refusal_are_cut_and_cleaned() {
    let site = Site::start().await;
    let node = Node::of(&site).await;
    let asked = ask(site.deployment.http, false);
    let detail = refused("\u{1b}[31mred\nforged line ".repeat(3000));
    Run::next(&node.connection).await.finish_with(&detail, End::Fin).await;
    let answer = answer(asked).await.expect("an answer");
    assert_eq!((answer.status.as_u16(), &answer.json()["error"]["code"]), (503, &json!("provider_busy")));
    let message = answer.json()["error"]["message"].as_str().expect("a message").to_owned();
    assert!(message.contains("red") && message.len() < 2000, "{} bytes: {message}", message.len());
    assert!(!message.chars().any(char::is_control), "{message:?}");
    drop(node);
    site.assert_unharmed().await;
}

/// Writes without end, whatever the edge says, until the connection is closed.
async fn flood(mut run: Run, head: Bytes) {
    let bytes = vec![b'x'; 64 << 10];
    let _closed = run.send.write_all(&head).await;
    while run.send.write_all(&bytes).await.is_ok() {}
}

// [lease-lifecycle]
#[tokio::test]
async fn refusals_without_end_are_given_up_and_keep_their_slot_until_the_node_ends_them() {
    let site = Site::start().await;
    let node = Node::of(&site).await;
    let begun = Instant::now();
    for head in [response(429, &[]), refused("full".to_owned())] {
        let asked = ask(site.deployment.http, false);
        let mut run = Run::next(&node.connection).await;
        run.send.write_all(&head).await.expect("it is written");
        let (client_is_answered, answer_came) = tokio::sync::oneshot::channel();
        let answered = async {
            let answer = answer(asked).await.expect("an answer");
            assert_eq!(answer.status, 502, "{answer:?}");
            let slots = &site.node(HOSTILE).await["providers"][0];
            assert_eq!(slots["in_flight"], 1, "{slots:#}");
            client_is_answered.send(()).expect("the run waits for it");
        };
        let endless = async {
            let bytes = vec![b'x'; 64 << 10];
            let writing = async { while run.send.write_all(&bytes).await.is_ok() {} };
            let cancelled = run.recv.received_reset();
            tokio::select! {
                () = writing => panic!("the connection was closed"),
                code = cancelled => assert!(code.expect("the connection stands").is_some()),
            }
            answer_came.await.expect("the client gets an answer");
            run.send.reset(StreamCode::Cancelled.wire()).expect("it is open");
        };
        tokio::join!(answered, endless);
    }
    assert!(begun.elapsed() < 3 * CANCEL_TIMEOUT, "{:?}", begun.elapsed());
    assert!(node.connection.close_reason().is_none(), "who obeys a cancel keeps its connection");
    drop(node);
    site.assert_unharmed().await;
}

// [lease-lifecycle]
#[tokio::test]
async fn a_node_that_does_not_end_a_cancelled_run_loses_its_connection_and_the_lease_comes_back() {
    let site = Site::start().await;
    let node = Node::of(&site).await;
    // Its head comes and its bytes never stop; the client leaves after some of them.
    let call = open(site.deployment.http, Call::chat(BAD, true));
    let (mut endless, run) = tokio::join!(call, async {
        let mut run = Run::next(&node.connection).await;
        run.send.write_all(&response(200, &[])).await.expect("it is written");
        run
    });
    let flooding = tokio::spawn(flood(run, Bytes::new()));
    let mut read = 0;
    while read < 1 << 20 {
        let piece = endless.as_mut().expect("an answer").next().await.expect("a piece").expect("no end");
        read += piece.bytes.len();
    }
    drop(endless);
    // Nothing comes at all, and the cancel is not answered.
    let silent = ask(site.deployment.http, false);
    let run = Run::next(&node.connection).await;
    silent.abort();
    assert_closed("runs that do not end", &node.connection, CloseCode::CancelTimeout).await;
    flooding.await.expect("the flood ends with its connection");
    drop(run);
    site.wait_for_rest().await;
    site.assert_unharmed().await;
}

// [lease-lifecycle]
#[tokio::test]
async fn answers_to_a_lease_that_was_cancelled_reach_nobody_and_free_its_slot() {
    let site = Site::start().await;
    let node = Node::of(&site).await;
    for end in [End::Fin, End::Reset(StreamCode::UpstreamAborted as u32), End::Fin] {
        let asked = ask(site.deployment.http, false);
        let mut run = Run::next(&node.connection).await;
        asked.abort();
        let cancel = timeout(DEADLINE, run.recv.received_reset()).await.expect("a cancel in time");
        assert_eq!(cancel, Ok(Some(StreamCode::ClientGone.wire())));
        let bytes = [response(200, &[]), Bytes::from(vec![b'x'; 100_000])].concat().into();
        run.finish_with(&bytes, end).await;
        site.wait_for_rest().await;
    }
    assert!(node.connection.close_reason().is_none());
    drop(node);
    site.assert_unharmed().await;
}

#[tokio::test]
async fn a_node_that_does_not_read_one_run_s_request_serves_the_others_of_its_connection() {
    let site = Site::start().await;
    let node = Node::of(&site).await;
    let (edge, large) = (site.deployment.http, "x".repeat(4 << 20));
    let large = json!({"model": BAD, "messages": [{"role": "user", "content": large}]});
    let stuck: Vec<JoinHandle<_>> = (0..8)
        .map(|_| {
            let call = Call::post("/v1/chat/completions", &large);
            tokio::spawn(async move { send(edge, call).await })
        })
        .collect();
    let mut unread = Vec::new();
    for _ in 0..stuck.len() {
        unread.push(Run::next(&node.connection).await);
    }
    for _ in 0..20 {
        let asked = ask(edge, false);
        let bytes = [response(200, &[]), Bytes::from_static(b"good")].concat().into();
        Run::next(&node.connection).await.finish_with(&bytes, End::Fin).await;
        assert_eq!(&answer(asked).await.expect("an answer").body[..], b"good");
    }
    assert!(stuck.iter().all(|asked| !asked.is_finished()), "the unread requests wait");
    stuck.iter().for_each(JoinHandle::abort);
    for run in unread {
        run.obey().await;
    }
    drop(node);
    site.assert_unharmed().await;
}

// [lease-lifecycle]
#[tokio::test]
async fn a_storm_of_resets_costs_each_client_its_answer_and_leaves_nothing() {
    let site = Site::start().await;
    let node = Node::of(&site).await;
    let edge = site.deployment.http;
    let clients: Vec<_> = (0..30)
        .map(|_| {
            tokio::spawn(async move {
                for _ in 0..20 {
                    let answer = send(edge, Call::chat(BAD, true)).await.expect("an answer");
                    assert_eq!(answer.status, 502, "{answer:?}");
                }
            })
        })
        .collect();
    for number in 0..600_u32 {
        let (mut send, recv) =
            timeout(DEADLINE, node.connection.accept_bi()).await.expect("a run").expect("a run");
        send.reset((number % 64).into()).expect("it is open");
        drop(recv);
    }
    for client in clients {
        client.await.expect("every client has its answers");
    }
    drop(node);
    site.assert_unharmed().await;
}
