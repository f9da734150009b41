//! What an edge with a good certificate may do wrong: the node keeps to its gate and its protocol, and serves the next
//! connection.

use crate::fake_edge::{ECHO, FakeEdge, GENERATION, SLOTS, Side, TUNNEL, encoded, provider, tunnel};
use crate::fake_node::{assert_closed, closed};
use crate::site::DEADLINE;
use bytes::Bytes;
use iop_transport::codes::{CloseCode, StreamCode};
use iop_transport::wire::{
    Adapter, Apply, CONTROL_FRAME_BYTES, EdgeMessage, NodeMessage, NormalizedRequest, Operation,
    RUN_HEAD_BYTES, Refusal, RefusalReason, RunHead, RunReply, RunRequest, TunnelRequest,
};
use std::time::Duration;
use tokio::time::timeout;

/// A terminal's orders, and a line end that would forge a line.
const NASTY: &str = "\u{1b}[2J\u{7}\nforged line\u{9b}31m";

fn announced(length: usize, bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(length).expect("it fits").to_be_bytes()[..], bytes].concat()
}

fn refusal(reply: RunReply) -> Refusal {
    match reply {
        RunReply::Refused(refusal) => refusal,
        other => panic!("a refusal is due: {other:?}"),
    }
}

#[tokio::test]
async fn heads_that_are_none_end_their_stream_alone() {
    let mut edge = FakeEdge::start().await;
    let side = edge.welcome().await;
    let good = encoded(&tunnel(GENERATION, 0));
    let trailing = [&announced(good.len() - 3, &good[4..])[..], &[0; 9]].concat();
    let cases: [(&str, Vec<u8>, bool); 6] = [
        ("4 GiB announced", vec![0xff; 4], false),
        ("one byte over the limit", announced(RUN_HEAD_BYTES + 1, b"x"), false),
        ("garbage", announced(8, &[0xff; 8]), false),
        ("bytes behind the head", trailing, false),
        ("half a head and its end", announced(100, b"half"), true),
        // After five seconds.
        ("half a head and nothing", announced(100, b"half"), false),
    ];
    for (what, bytes, finish) in cases {
        assert_eq!(side.reset_of(&bytes, finish).await, StreamCode::Protocol, "{what}");
    }
    let (mut send, mut recv) = side.connection.open_bi().await.expect("a stream");
    send.reset(StreamCode::ClientGone.wire()).expect("it is open");
    let end = timeout(DEADLINE, recv.read_chunk(1, true)).await.expect("an end in time");
    assert_eq!(end, Err(quinn::ReadError::Reset(StreamCode::Cancelled.wire())));
    edge.assert_serves(&side).await;
    edge.stop().await;
}

// [disconnect-exclusion]
#[tokio::test]
async fn runs_of_another_generation_or_for_nobody_or_to_elsewhere_never_reach_the_engine() {
    let mut edge = FakeEdge::start().await;
    let side = edge.welcome().await;
    for generation in [0, GENERATION - 1, GENERATION + 1, u64::MAX] {
        let (reply, rest) = side.exchange(&tunnel(generation, 2), b"{}").await;
        assert_eq!(refusal(reply).reason, RefusalReason::StaleGeneration, "{generation}");
        assert!(rest.is_empty());
    }
    let nobody = RunHead { provider: NASTY.repeat(50), ..tunnel(GENERATION, 0) };
    let refused = refusal(side.exchange(&nobody, b"").await.0);
    assert_eq!(refused.reason, RefusalReason::UnknownProvider);
    assert!(!refused.detail.chars().any(char::is_control), "{refused:?}");

    let request = |method: &str, path: &str, header: (&str, &str)| {
        let headers = vec![(header.0.to_owned(), Bytes::copy_from_slice(header.1.as_bytes()))];
        let request = TunnelRequest { method: method.to_owned(), path: path.to_owned(), headers };
        RunHead { request: RunRequest::Tunnel(request), ..tunnel(GENERATION, 0) }
    };
    let normalized = NormalizedRequest { operation: Operation::Chat, model: "m".to_owned() };
    let other_kind = RunHead { request: RunRequest::Normalized(normalized), ..tunnel(GENERATION, 0) };
    let tunnel_to_echo = RunHead { provider: ECHO.to_owned(), ..tunnel(GENERATION, 0) };
    let endless_body = RunHead { provider: ECHO.to_owned(), body_len: u64::MAX, ..other_kind.clone() };
    let bad = [
        request("GET /x HTTP/1.1\r\nforged:", "/", ("a", "b")),
        request("POST", "http://127.0.0.1:1/elsewhere", ("a", "b")),
        request("POST", "@127.0.0.1:1/elsewhere", ("a", "b")),
        request("POST", "/a b\r\nforged: c", ("a", "b")),
        request("POST", "/", ("a\r\nforged", "b")),
        request("POST", "/", ("a", "b\r\nforged: c")),
        endless_body,
    ];
    let bad = bad.map(|head| (head, RefusalReason::BadRequest));
    let elsewhere = [other_kind, tunnel_to_echo].map(|head| (head, RefusalReason::UnknownProvider));
    for (head, reason) in bad.into_iter().chain(elsewhere) {
        let refused = refusal(side.exchange(&head, b"").await.0);
        assert_eq!(refused.reason, reason, "{head:?}: {refused:?}");
    }
    assert_eq!(edge.engine.look(|log| log.requests.len()), 0);
    edge.assert_serves(&side).await;
    edge.stop().await;
}

#[tokio::test]
async fn bodies_that_are_not_as_long_as_was_said_end_their_run() {
    let mut edge = FakeEdge::start().await;
    let side = edge.welcome().await;
    edge.engine.hold();
    let head = encoded(&tunnel(GENERATION, 2));
    assert_eq!(side.reset_of(&[&head[..], b"{}more"].concat(), false).await, StreamCode::Protocol);
    assert_eq!(side.reset_of(&[&head[..], b"{}"].concat(), true).await, StreamCode::Protocol);
    assert_eq!(side.reset_of(&[&head[..], b"{"].concat(), true).await, StreamCode::Protocol);
    let large = encoded(&tunnel(GENERATION, u64::MAX));
    assert_eq!(side.reset_of(&[&large[..], b"{"].concat(), true).await, StreamCode::Protocol);
    edge.engine.release_all();
    edge.assert_serves(&side).await;
    edge.stop().await;
}

// [tunnel-guard]
#[tokio::test]
async fn an_edge_that_gives_more_than_was_agreed_reaches_the_engine_with_no_more() {
    let mut edge = FakeEdge::start().await;
    let side = edge.welcome().await;
    edge.engine.hold();
    let mut running = Vec::new();
    let mut refused = 0;
    for _ in 0..40 {
        let (mut send, mut recv) = side.connection.open_bi().await.expect("a stream");
        send.write_all(&[&encoded(&tunnel(GENERATION, 2))[..], b"{}"].concat()).await.expect("it is written");
        if running.len() < SLOTS as usize {
            running.push((send, recv));
            edge.engine.wait_held(running.len(), DEADLINE).await;
            continue;
        }
        let frame = iop_transport::wire::read_frame(&mut recv, RUN_HEAD_BYTES)
            .await
            .expect("a reply")
            .expect("a reply");
        let reply = iop_transport::wire::decode(&frame).expect("a good reply");
        assert_eq!(refusal(reply).reason, RefusalReason::GateFull);
        refused += 1;
    }
    assert_eq!((edge.engine.peak(), refused), (SLOTS as usize, 40 - SLOTS as usize));
    edge.engine.release_all();
    for (_send, mut recv) in running {
        recv.read_to_end(1 << 20).await.expect("a whole answer");
    }
    edge.assert_serves(&side).await;
    edge.stop().await;
}

#[tokio::test]
async fn a_storm_of_runs_that_are_reset_at_once_leaves_nothing() {
    let mut edge = FakeEdge::start().await;
    let side = edge.welcome().await;
    for number in 0..2000_usize {
        let stream = timeout(DEADLINE, side.connection.open_bi()).await.expect("a stream in time");
        let (mut send, recv) = stream.expect("the connection stands");
        let whole = [&encoded(&tunnel(GENERATION, 2))[..], b"{}"].concat();
        // Cut anywhere: before the head, in it, in the body, behind it.
        send.write_all(&whole[..number % (whole.len() + 1)]).await.expect("it is written");
        send.reset(StreamCode::ClientGone.wire()).expect("it is open");
        // What comes back is not asked for either.
        drop(recv);
    }
    edge.assert_serves(&side).await;
    edge.stop().await;
}

#[tokio::test]
async fn control_messages_out_of_turn_end_the_connection_and_the_node_serves_the_next_one() {
    let mut edge = FakeEdge::start().await;
    let apply = Apply { revision: 1, providers: edge.providers() };
    for first in [EdgeMessage::Apply(apply), EdgeMessage::Ping { nonce: 1 }, EdgeMessage::Drain] {
        let mut side = edge.accept().await;
        side.say(&first).await;
        assert_closed("no Welcome at first", &side.connection, CloseCode::ProtocolViolation).await;
    }
    let mut side = edge.welcome().await;
    let again = edge.welcoming();
    side.say(&again).await;
    assert_closed("a second Welcome", &side.connection, CloseCode::ProtocolViolation).await;

    let side = edge.welcome().await;
    drop(side.send);
    assert_closed("a reset control stream", &side.connection, CloseCode::ProtocolViolation).await;

    // Five seconds without a Welcome.
    let side = edge.accept().await;
    assert_closed("no Welcome", &side.connection, CloseCode::ProtocolViolation).await;
    let side = edge.welcome().await;
    edge.assert_serves(&side).await;
    side.connection.close(0x4321_u32.into(), NASTY.as_bytes());
    let side = edge.welcome().await;
    edge.assert_serves(&side).await;
    edge.stop().await;
}

#[tokio::test]
async fn control_frames_that_are_none_end_the_connection_and_the_node_serves_the_next_one() {
    let mut edge = FakeEdge::start().await;
    let cases = [
        vec![0xff; 4],
        announced(CONTROL_FRAME_BYTES + 1, b"x"),
        announced(1, &[77]),
        announced(11, &[1, 1, 0xfd, 255, 255, 255, 255, 255, 255, 255, 255]),
    ];
    for bytes in cases {
        let (connection, mut send, _recv) = edge.accept_raw().await;
        send.write_all(&bytes).await.expect("it is written");
        assert_closed("no frame", &connection, CloseCode::ProtocolViolation).await;
    }
    let side = edge.welcome().await;
    edge.assert_serves(&side).await;
    edge.stop().await;
}

/// Runs go on while the control stream is of no use.
async fn serves_meanwhile(side: &Side) {
    for _ in 0..5 {
        let (reply, _body) = side.exchange(&tunnel(GENERATION, 2), b"{}").await;
        assert!(matches!(reply, RunReply::Response { status: 200, .. }), "{reply:?}");
    }
}

#[tokio::test]
async fn floods_of_pings_and_settings_cost_the_node_no_memory_and_stop_no_run() {
    let mut edge = FakeEdge::start().await;
    let mut side = edge.welcome().await;
    // The answers are not read: in the end the node waits, and so does the flood.
    let flood = async {
        for nonce in 0..10_000_000 {
            side.send.send(&EdgeMessage::Ping { nonce }).await.expect("the control stream stands");
        }
    };
    assert!(timeout(Duration::from_secs(4), flood).await.is_err(), "ten million Pings were taken");
    let (reply, _body) = side.exchange(&tunnel(GENERATION, 2), b"{}").await;
    assert!(matches!(reply, RunReply::Response { status: 200, .. }), "{reply:?}");
    serves_meanwhile(&side).await;
    side.connection.close(0x4321_u32.into(), b"");

    let mut side = edge.welcome().await;
    let echo = || Adapter::Echo { words: 1, word_interval_ms: 0 };
    let mut providers = edge.providers();
    providers.extend((0..5000).map(|number| provider(&format!("{number}"), echo(), u32::MAX)));
    let elsewhere = Adapter::OpenAi { endpoint: format!("http://{NASTY}.example:1/") };
    providers.push(provider(NASTY, elsewhere, 1));
    for revision in 2..30 {
        let apply = Apply { revision, providers: providers.clone() };
        side.say(&EdgeMessage::Apply(apply)).await;
        match side.hear().await {
            NodeMessage::Applied(applied) => {
                assert_eq!((applied.revision, applied.refused.len()), (revision, 1));
                assert!(!applied.refused[0].reason.chars().any(char::is_control), "{applied:?}");
            }
            other => panic!("an answer is due: {other:?}"),
        }
    }
    assert_eq!(providers[0].id, TUNNEL);
    edge.assert_serves(&side).await;
    edge.stop().await;
}

#[tokio::test]
async fn an_edge_has_neither_streams_of_one_direction_nor_datagrams_nor_streams_beyond_the_limit() {
    let mut edge = FakeEdge::start().await;
    let side = edge.welcome().await;
    let short = Duration::from_millis(300);
    assert!(timeout(short, side.connection.open_uni()).await.is_err(), "no stream of one direction");
    assert!(side.connection.send_datagram(Bytes::from_static(b"x")).is_err(), "no datagrams");
    let mut opened = Vec::new();
    while let Ok(stream) = timeout(short, side.connection.open_bi()).await {
        opened.push(stream.expect("the connection stands"));
        assert!(opened.len() <= 1000, "streams without a bound");
    }
    assert!(opened.len() >= 2 * SLOTS as usize, "{}", opened.len());
    for (send, _recv) in &mut opened {
        send.reset(StreamCode::ClientGone.wire()).expect("it is open");
    }
    drop(opened);
    edge.assert_serves(&side).await;
    let connection = side.connection.clone();
    edge.stop().await;
    closed(&connection).await;
}
