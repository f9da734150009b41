//! The control stream: Hello and what may stand in its place, and the messages after it. Whether a node is accepted is
//! the edge's business.

use super::links::{Link, link, within};
use iop_transport::codes::StreamCode;
use iop_transport::session::{ControlSendError, HelloError, accept_hello, printable, say_hello};
use iop_transport::wire::{
    Applied, Apply, CONTROL_FRAME_BYTES, CodecError, EdgeMessage, FrameError, Hello, NodeMessage, PROTOCOL,
    TEXT_BYTES, Welcome, encode,
};
use quinn::ReadError;
use std::time::Duration;

fn hello(software: &str) -> Hello {
    Hello { instance: [3; 16], dial: 1, software: software.into() }
}

/// What the edge makes of these bytes on the first stream.
async fn heard(link: &Link, bytes: &[u8], finish: bool) -> Result<Hello, HelloError> {
    let (mut send, recv) = within(link.at_node.open_bi()).await.expect("a stream");
    within(send.write_all(bytes)).await.expect("a live stream");
    if finish {
        send.finish().expect("an open stream");
    }
    let result = within(accept_hello(&link.at_edge)).await.map(|(hello, _send, _recv)| hello);
    drop(recv);
    result
}

#[tokio::test]
async fn messages_travel_both_ways_after_hello() {
    let link = link().await;
    let said = hello("iop 0.1.0");
    let (to_edge, heard) =
        within(async { tokio::join!(say_hello(&link.at_node, &said), accept_hello(&link.at_edge)) }).await;
    let (mut to_edge, mut from_edge) = to_edge.expect("a live connection");
    let (heard, mut to_node, mut from_node) = heard.expect("a good Hello");
    assert_eq!(heard, said);
    let apply = Apply { revision: 1, providers: Vec::new() };
    let welcome = EdgeMessage::Welcome(Welcome { generation: 1, edge_time_ms: 5, idle_timeout_ms: 0, apply });
    for message in [welcome, EdgeMessage::Ping { nonce: 4 }, EdgeMessage::Drain] {
        within(to_node.send(&message)).await.expect("a live stream");
        assert_eq!(within(from_edge.recv()).await, Ok(Some(message)));
    }
    let applied = NodeMessage::Applied(Applied { revision: 1, refused: Vec::new() });
    for message in [applied, NodeMessage::Pong { nonce: 4 }, NodeMessage::Leaving] {
        within(to_edge.send(&message)).await.expect("a live stream");
        assert_eq!(within(from_node.recv()).await, Ok(Some(message)));
    }
    drop(to_edge);
    let end = within(from_node.recv()).await;
    assert_eq!(end, Err(FrameError::Read(ReadError::Reset(StreamCode::Protocol.wire()))));
}

#[tokio::test]
async fn a_receive_that_is_given_up_in_the_middle_of_a_message_loses_nothing() {
    let link = link().await;
    let (mut send, _recv) = within(link.at_node.open_bi()).await.expect("a stream");
    let hello = encode(&PROTOCOL.to_be_bytes(), &hello("iop"), TEXT_BYTES * 2).expect("a small message");
    within(send.write_all(&hello)).await.expect("a live stream");
    let (_hello, _to_node, mut from_node) = within(accept_hello(&link.at_edge)).await.expect("a good Hello");
    let pong = NodeMessage::Pong { nonce: 1 << 40 };
    let frame = encode(&[], &pong, CONTROL_FRAME_BYTES).expect("a small message");
    for byte in frame.chunks(1) {
        let early = tokio::time::timeout(Duration::from_millis(2), from_node.recv()).await;
        assert!(early.is_err(), "the message is not whole yet");
        within(send.write_all(byte)).await.expect("a live stream");
    }
    assert_eq!(within(from_node.recv()).await, Ok(Some(pong)));
    send.finish().expect("an open stream");
    assert_eq!(within(from_node.recv()).await, Ok(None));
}

#[tokio::test]
async fn a_message_over_the_limit_is_not_sent_and_the_stream_is_still_good() {
    let link = link().await;
    let said = hello("iop");
    let (to_edge, heard) =
        within(async { tokio::join!(say_hello(&link.at_node, &said), accept_hello(&link.at_edge)) }).await;
    let (mut to_edge, _from_edge) = to_edge.expect("a live connection");
    let (_hello, _to_node, mut from_node) = heard.expect("a good Hello");
    let reason = "x".repeat(CONTROL_FRAME_BYTES);
    let refused = vec![iop_transport::wire::RefusedProvider { id: "a".into(), reason }];
    let sent = within(to_edge.send(&NodeMessage::Applied(Applied { revision: 1, refused }))).await;
    assert!(matches!(sent, Err(ControlSendError::Codec(CodecError::TooLarge { .. }))), "{sent:?}");
    within(to_edge.send(&NodeMessage::Leaving)).await.expect("a live stream");
    assert_eq!(within(from_node.recv()).await, Ok(Some(NodeMessage::Leaving)));
}

#[tokio::test]
async fn a_strangers_version_is_known_before_its_hello_is_read() {
    let link = link().await;
    for found in [0, PROTOCOL + 1, u16::MAX] {
        let [high, low] = found.to_be_bytes();
        let frame = [0, 0, 0, 5, high, low, 0xff, 0xff, 0xff];
        assert_eq!(heard(&link, &frame, false).await, Err(HelloError::Version { found }));
    }
}

#[tokio::test]
async fn a_first_frame_that_is_no_hello_is_refused() {
    let ended = HelloError::Frame(FrameError::Ended);
    let link = link().await;
    assert_eq!(heard(&link, b"", true).await, Err(ended.clone()));
    assert_eq!(heard(&link, &[0, 0], true).await, Err(ended));
    let versionless = HelloError::Frame(CodecError::Malformed("no protocol version".into()).into());
    for frame in [&[0, 0, 0, 0][..], &[0, 0, 0, 1, 0]] {
        assert_eq!(heard(&link, frame, false).await, Err(versionless.clone()));
    }
    let empty = heard(&link, &[0, 0, 0, 2, 0, 1], false).await;
    assert!(
        matches!(empty, Err(HelloError::Frame(FrameError::Codec(CodecError::Malformed(_))))),
        "{empty:?}"
    );
    let limit = TEXT_BYTES * 2;
    let too_large = u32::try_from(limit + 1).expect("a small limit").to_be_bytes();
    let expected = HelloError::Frame(CodecError::TooLarge { found: limit + 1, limit }.into());
    assert_eq!(heard(&link, &too_large, false).await, Err(expected));
    let body = encode(&PROTOCOL.to_be_bytes(), &hello("iop"), limit).expect("a small message");
    let mut longer = body.to_vec();
    longer[3] += 1;
    longer.push(0);
    let expected = HelloError::Frame(CodecError::Trailing(1).into());
    assert_eq!(heard(&link, &longer, false).await, Err(expected));
}

#[tokio::test]
async fn a_node_that_says_nothing_is_noticed_by_the_callers_deadline() {
    let link = link().await;
    tokio::time::pause();
    let heard =
        tokio::time::timeout(iop_transport::session::HELLO_TIMEOUT, accept_hello(&link.at_edge)).await;
    assert!(heard.is_err(), "nothing was said");
}

#[tokio::test]
async fn the_software_name_is_made_fit_for_logs() {
    let link = link().await;
    let said = hello("iop\u{1b}[31m\r\n0.1");
    let (_said, heard) =
        within(async { tokio::join!(say_hello(&link.at_node, &said), accept_hello(&link.at_edge)) }).await;
    let (heard, ..) = heard.expect("a good Hello");
    assert_eq!(heard.software, "iop[31m0.1");
}

#[test]
fn text_of_a_peer_is_cut_to_its_limit_and_keeps_no_control_characters() {
    assert_eq!(printable("a\0b\u{7f}c\u{85}d"), "abcd");
    assert_eq!(printable("schön 🦙"), "schön 🦙");
    assert_eq!(printable(&"é".repeat(5000)).len(), TEXT_BYTES, "bytes, not characters");
    assert_eq!(printable(&"🦙".repeat(5000)).len(), TEXT_BYTES);
    assert_eq!(
        printable(&format!("a{}", "🦙".repeat(5000))).len(),
        TEXT_BYTES - 3,
        "a character is never cut"
    );
}
