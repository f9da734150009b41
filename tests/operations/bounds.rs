//! What callers of the admin listener may take: connections and streams of events have bounds, who says nothing is closed,
//! and nobody who holds on to all that there is keeps an operator away.

use crate::lab::{DEADLINE, Lab, plan};
use crate::subscriber::Subscriber;
use iop_tests::deadline::wait_until_async;
use iop_tests::deployment::Plan;
use iop_tests::engine::Engine;
use iop_tests::http::{Call, Connection, RawConnection, Streaming, open, send};
use iop_tests::process::Process;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Connections that the listener has at a time.
const CONNECTIONS: usize = 64;

/// Streams of events that there may be at a time.
pub(crate) const SUBSCRIBERS: usize = 16;

/// Time for the head of a first request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// The beginning of HTTP/2, and settings that say nothing.
const HTTP2: &str = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\u{4}\0\0\0\0\0";

fn snapshot() -> Call {
    Call::get("/admin/v1/snapshot")
}

async fn edge() -> Lab {
    Lab::start_edge(Plan::new()).await
}

async fn subscribe(admin: SocketAddr) -> Streaming {
    open(admin, Call::get("/admin/v1/events")).await.expect("an answer begins")
}

/// Sockets that the process has open.
pub(crate) fn sockets(process: &Process) -> usize {
    let files = std::fs::read_dir(format!("/proc/{}/fd", process.id())).expect("it runs");
    let is_socket = |path: std::path::PathBuf| {
        std::fs::read_link(path).is_ok_and(|link| link.to_string_lossy().starts_with("socket:"))
    };
    files.filter(|file| is_socket(file.as_ref().expect("it can be listed").path())).count()
}

#[tokio::test]
async fn one_stream_too_many_is_told_so_and_the_snapshot_is_answered_all_the_same() {
    let lab = edge().await;
    let mut streams = Vec::new();
    for _ in 0..SUBSCRIBERS {
        streams.push(subscribe(lab.admin).await);
    }
    assert!(streams.iter().all(|stream| stream.status == 200));
    for _ in 0..3 {
        let refused = send(lab.admin, Call::get("/admin/v1/events")).await.expect("an answer");
        assert_eq!((refused.status.as_u16(), refused.header("content-type")), (429, "application/json"));
        let error = refused.json()["error"].as_str().expect("a text").to_owned();
        assert!(error.contains("16 streams of events are open"), "{error}");
    }
    lab.snapshot().await;

    // Each that ends makes room for another one.
    streams.pop();
    let stream = wait_until_async("room for a stream", DEADLINE, async || {
        let stream = subscribe(lab.admin).await;
        if stream.status == 200 { Ok(stream) } else { Err(stream.status) }
    });
    streams.push(stream.await);
    assert_eq!(subscribe(lab.admin).await.status, 429);
}

#[tokio::test]
async fn connections_that_ask_for_nothing_give_their_places_up_and_streams_of_events_keep_theirs() {
    let engine = Engine::start();
    let lab = Lab::start_edge(plan(&engine, 1)).await;
    let before = sockets(&lab.edge);
    let mut events = Subscriber::open(&lab).await;
    // Who asks now and then is not the one where nothing has happened for longest.
    let mut asks = Connection::open(lab.admin).await.expect("connected");
    let mut silent = Vec::new();
    for number in 0..5 * CONNECTIONS {
        silent.push(RawConnection::open(lab.admin).await.expect("connected"));
        if number % 20 == 0 {
            assert_eq!(asks.send(snapshot()).await.expect("its connection stays").status, 200);
            // And neither is one of them kept from coming in.
            lab.snapshot().await;
        }
    }
    let first =
        tokio::time::timeout(DEADLINE, silent[0].read_to_end()).await.expect("closed before its time");
    assert_eq!(first.expect("an orderly end"), "");
    // A snapshot's connection that ended late has left its place free.
    wait_until_async("as many connections as there may be", DEADLINE, async || {
        let held = sockets(&lab.edge).saturating_sub(before);
        if held < CONNECTIONS {
            silent.push(RawConnection::open(lab.admin).await.expect("connected"));
        }
        if held == CONNECTIONS { Ok(()) } else { Err(held) }
    })
    .await;
    lab.refresh("").await;
    let refused = send(lab.http, Call::chat("no-such-model", false)).await.expect("clients are served");
    assert_eq!(refused.status, 404);
    assert_eq!(events.next().await["event"], "request_refused", "the stream goes on");
}

/// A reader over HTTP/2 that takes nothing of a snapshot holds a request for as long as it likes, up to the stall limit.
#[tokio::test]
async fn connections_whose_requests_never_end_keep_no_operator_away_either() {
    let lab = edge().await;
    let mut stuck = Vec::new();
    for _ in 0..2 * CONNECTIONS {
        let mut connection = RawConnection::open(lab.admin).await.expect("connected");
        connection.send(shut_window("/admin/v1/snapshot")).await.expect("sent");
        stuck.push(connection);
        lab.snapshot().await;
    }
}

/// HTTP/2 with windows of 0 bytes, and a request.
pub(crate) fn shut_window(path: &str) -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    // SETTINGS: INITIAL_WINDOW_SIZE (4) = 0.
    bytes.extend([0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0]);
    // HEADERS, END_STREAM and END_HEADERS: GET, http, then path and authority as literals that are not indexed.
    let mut headers = vec![0x82, 0x86];
    for (name, value) in [(0x04, path), (0x01, "localhost")] {
        headers.extend([name, u8::try_from(value.len()).expect("short")]);
        headers.extend(value.as_bytes());
    }
    bytes.extend([0, 0, u8::try_from(headers.len()).expect("short"), 1, 5, 0, 0, 0, 1]);
    bytes.extend(headers);
    bytes
}

#[tokio::test]
async fn who_sends_no_request_in_time_is_closed_on_both_listeners() {
    let lab = edge().await;
    let begun = Instant::now();
    let mut closed = tokio::task::JoinSet::new();
    for address in [lab.admin, lab.http] {
        for sent in
            ["", "P", "PRI * HTTP/2.0\r\n", HTTP2, "GET /admin/v1/snap", "GET / HTTP/1.1\r\nhost: iop\r\n"]
        {
            closed.spawn(async move {
                let mut connection = RawConnection::open(address).await.expect("connected");
                connection.send(sent).await.expect("sent");
                let end = connection.read_to_end().await;
                (address, sent, end, begun.elapsed())
            });
        }
    }
    while let Some(closed) = closed.join_next().await {
        let (address, sent, end, after) = closed.expect("it does not panic");
        let end = end.unwrap_or_else(|error| panic!("{sent:?} at {address}: {error:#}"));
        assert!(!end.contains("200"), "{sent:?} at {address}: {end:?}");
        assert!(after >= HEAD_TIMEOUT, "{sent:?} at {address}: closed after {after:?}");
    }
    lab.snapshot().await;
}

#[tokio::test]
async fn a_head_larger_than_the_bound_is_refused() {
    let lab = edge().await;
    let large = snapshot().header("x-large", &"x".repeat(200 << 10));
    let refused = send(lab.admin, large).await.expect("an answer");
    assert_eq!(refused.status, 431);
    let many = (0..101).fold(snapshot(), |call, number| call.header(&format!("x-{number}"), "x"));
    assert_eq!(send(lab.admin, many).await.expect("an answer").status, 431);
    lab.snapshot().await;
}
