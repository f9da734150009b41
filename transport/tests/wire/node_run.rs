//! The node's half of a run, against an edge that does as the test likes.

use super::links::{Link, link, pattern, tunnel_head, within};
use iop_transport::codes::StreamCode;
use iop_transport::tunnel::{HeadError, NodeRun, ReplyError};
use iop_transport::wire::{
    CodecError, EVENT_FRAME_BYTES, FrameError, RUN_HEAD_BYTES, RunEvent, RunHead, RunReply, decode, encode,
    read_frame,
};
use quinn::{ReadError, RecvStream, SendStream};
use std::time::Duration;

/// An edge's run that has sent its head and `body`, and the node's half of it.
async fn opened(link: &Link, announced: u64, body: &[u8]) -> (SendStream, RecvStream, NodeRun) {
    let (mut send, recv) = within(link.at_edge.open_bi()).await.expect("a stream");
    let head = encode(&[], &tunnel_head(announced), RUN_HEAD_BYTES).expect("a small head");
    within(send.write_all(&[&head[..], body].concat())).await.expect("a live stream");
    let (node_send, node_recv) = within(link.at_node.accept_bi()).await.expect("the stream");
    let run = within(NodeRun::accept(node_send, node_recv)).await.expect("a good head");
    assert_eq!(run.head, tunnel_head(announced));
    (send, recv, run)
}

/// What an edge's run with these bytes becomes, and the code that its other half is reset with.
async fn refused(link: &Link, bytes: &[u8], end: impl FnOnce(&mut SendStream)) -> (HeadError, StreamCode) {
    let (mut send, mut recv) = within(link.at_edge.open_bi()).await.expect("a stream");
    within(send.write_all(bytes)).await.expect("a live stream");
    end(&mut send);
    let (node_send, node_recv) = within(link.at_node.accept_bi()).await.expect("the stream");
    let error = within(NodeRun::accept(node_send, node_recv)).await.expect_err("no good head");
    (error, reset_code(&mut recv).await)
}

async fn reset_code(recv: &mut RecvStream) -> StreamCode {
    match within(recv.read_to_end(1 << 20)).await {
        Err(quinn::ReadToEndError::Read(ReadError::Reset(code))) => {
            StreamCode::from_wire(code).expect("one of ours")
        }
        other => panic!("a reset was due, not {other:?}"),
    }
}

async fn whole_body(run: &mut NodeRun) -> Result<Vec<u8>, StreamCode> {
    let mut body = Vec::new();
    while let Some(bytes) = within(run.body.chunk()).await? {
        body.extend_from_slice(&bytes);
    }
    Ok(body)
}

#[tokio::test]
async fn the_body_is_exactly_as_long_as_the_head_said() {
    let link = link().await;
    for length in [0, 1, 65_536, 300_000] {
        let body = pattern(length);
        let (_send, _recv, mut run) = opened(&link, length as u64, &body).await;
        assert_eq!(run.body.left(), length as u64);
        assert!(whole_body(&mut run).await.expect("no cancel") == body);
        assert_eq!(run.body.left(), 0);
        assert_eq!(within(run.body.chunk()).await, Ok(None), "its end is told again");
    }
}

#[tokio::test]
async fn bytes_behind_the_body_break_the_protocol() {
    let link = link().await;
    for length in [0, 5] {
        let (_send, _recv, mut run) = opened(&link, length, &pattern(6)[..length as usize + 1]).await;
        assert_eq!(whole_body(&mut run).await.expect("the body itself is good").len() as u64, length);
        assert_eq!(within(run.body.cancelled()).await, StreamCode::Protocol);
    }
}

#[tokio::test]
async fn an_edge_that_finishes_its_half_breaks_the_protocol() {
    let link = link().await;
    let (mut send, _recv, mut early) = opened(&link, 10, b"only 6").await;
    send.finish().expect("an open stream");
    assert_eq!(whole_body(&mut early).await, Err(StreamCode::Protocol));
    let (mut send, _recv, mut late) = opened(&link, 6, b"only 6").await;
    send.finish().expect("an open stream");
    assert_eq!(whole_body(&mut late).await.expect("the body is whole"), b"only 6");
    assert_eq!(within(late.body.cancelled()).await, StreamCode::Protocol);
}

#[tokio::test]
async fn an_early_end_breaks_the_protocol_also_when_a_cancel_was_looked_for_before() {
    let link = link().await;
    let (mut send, _recv, mut run) = opened(&link, 10, b"only 6").await;
    send.finish().expect("an open stream");
    // A second stream's bytes come after the first one's end.
    let (_send, _recv, _later) = opened(&link, 0, b"").await;
    let early = tokio::time::timeout(Duration::ZERO, run.body.cancelled()).await;
    assert!(early.is_err(), "the body is not read yet");
    assert_eq!(whole_body(&mut run).await, Err(StreamCode::Protocol));
    drop(run);
    let (_send, _recv, mut next) = opened(&link, 3, b"ask").await;
    assert_eq!(whole_body(&mut next).await.expect("the connection is as good as before"), b"ask");
}

// [lease-lifecycle] client cancel: a stalled inference server must not hide it
#[tokio::test]
async fn a_cancel_is_seen_while_the_body_waits_for_the_inference_server() {
    let link = link().await;
    let body = pattern(1 << 20);
    let (mut send, _recv, mut run) = opened(&link, 1 << 21, &body[..300_000]).await;
    let first = within(run.body.chunk()).await.expect("no cancel").expect("bytes");
    // Nothing is cancelled yet: what waits to be read is no signal, and is not lost by looking for one.
    let early = tokio::time::timeout(Duration::ZERO, run.body.cancelled()).await;
    assert!(early.is_err(), "bytes of the body are no cancel");
    let second = within(run.body.chunk()).await.expect("no cancel").expect("bytes");
    assert!(second == body[first.len()..first.len() + second.len()], "the body goes on where it was");
    send.reset(StreamCode::ClientGone.wire()).expect("an open stream");
    assert_eq!(within(run.body.cancelled()).await, StreamCode::Cancelled);
    assert_eq!(within(run.body.chunk()).await, Err(StreamCode::Cancelled));
    assert_eq!(within(run.body.cancelled()).await, StreamCode::Cancelled, "and asked again");
}

#[tokio::test]
async fn a_lost_connection_cancels_the_run() {
    for left in [0, 10] {
        let link = link().await;
        let (_send, _recv, mut run) = opened(&link, left, b"").await;
        link.at_edge.close(quinn::VarInt::from_u32(0x100), b"");
        assert_eq!(within(run.body.cancelled()).await, StreamCode::Cancelled, "{left} bytes left");
    }
}

// [lease-lifecycle] client cancel
#[tokio::test]
async fn a_cancel_before_the_head_is_read_is_answered_as_cancelled() {
    let link = link().await;
    let head = encode(&[], &tunnel_head(0), RUN_HEAD_BYTES).expect("a small head");
    for bytes in [&b""[..], &head[..10], &head[..]] {
        let (error, code) = refused(&link, bytes, |send| {
            send.reset(StreamCode::ClientGone.wire()).expect("an open stream");
        })
        .await;
        assert_eq!(
            error,
            HeadError::Frame(FrameError::Read(ReadError::Reset(StreamCode::ClientGone.wire())))
        );
        assert_eq!(code, StreamCode::Cancelled);
    }
}

#[tokio::test]
async fn a_head_that_is_none_is_answered_as_a_broken_protocol() {
    let link = link().await;
    let head = encode(&[], &tunnel_head(0), RUN_HEAD_BYTES).expect("a small head");
    let too_large = u32::try_from(RUN_HEAD_BYTES + 1).expect("a small limit").to_be_bytes();
    let longer = [&(head.len() as u32 - 3).to_be_bytes(), &head[4..], &[0]].concat();
    let finish = |send: &mut SendStream| send.finish().expect("an open stream");
    let stay = |_send: &mut SendStream| {};
    let protocol = StreamCode::Protocol;
    let ended = HeadError::Frame(FrameError::Ended);
    assert_eq!(refused(&link, b"", finish).await, (ended.clone(), protocol));
    assert_eq!(refused(&link, &head[..3], finish).await, (ended.clone(), protocol));
    assert_eq!(refused(&link, &head[..head.len() - 1], finish).await, (ended, protocol));
    let limit = CodecError::TooLarge { found: RUN_HEAD_BYTES + 1, limit: RUN_HEAD_BYTES };
    assert_eq!(refused(&link, &too_large, stay).await, (HeadError::Frame(limit.into()), protocol));
    let trailing = HeadError::Frame(CodecError::Trailing(1).into());
    assert_eq!(refused(&link, &longer, stay).await, (trailing, protocol));
    let (malformed, code) = refused(&link, &[0, 0, 0, 2, 255, 255], stay).await;
    assert!(
        matches!(malformed, HeadError::Frame(FrameError::Codec(CodecError::Malformed(_)))),
        "{malformed}"
    );
    assert_eq!(code, protocol);
}

#[tokio::test]
async fn a_head_that_does_not_come_is_given_up() {
    let link = link().await;
    let (mut send, mut recv) = within(link.at_edge.open_bi()).await.expect("a stream");
    within(send.write_all(&[0, 0])).await.expect("a live stream");
    let (node_send, node_recv) = within(link.at_node.accept_bi()).await.expect("the stream");
    tokio::time::pause();
    let error = NodeRun::accept(node_send, node_recv).await.expect_err("half a length is no head");
    tokio::time::resume();
    assert_eq!(error, HeadError::Timeout);
    assert_eq!(reset_code(&mut recv).await, StreamCode::Protocol);
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_not_sent_and_the_stream_is_still_good() {
    let link = link().await;
    let (_send, mut recv, mut run) = opened(&link, 0, b"").await;
    let headers = vec![("x".to_string(), pattern(RUN_HEAD_BYTES))];
    let head = within(run.reply.head(&RunReply::Response { status: 200, headers })).await;
    assert!(matches!(head, Err(ReplyError::Codec(CodecError::TooLarge { .. }))), "{head:?}");
    within(run.reply.head(&RunReply::Started)).await.expect("a live stream");
    let event = within(run.reply.event(&RunEvent::Text("x".repeat(EVENT_FRAME_BYTES)))).await;
    assert!(matches!(event, Err(ReplyError::Codec(CodecError::TooLarge { .. }))), "{event:?}");
    run.reply.finish();
    let frame = within(read_frame(&mut recv, RUN_HEAD_BYTES)).await.expect("a frame").expect("not the end");
    assert_eq!(decode::<RunReply>(&frame), Ok(RunReply::Started));
    assert_eq!(within(read_frame(&mut recv, RUN_HEAD_BYTES)).await, Ok(None), "and nothing else");
}

#[tokio::test]
async fn heads_follow_each_other_on_streams_of_their_own() {
    let link = link().await;
    let mut seen = Vec::new();
    for lease in 1..=20 {
        let head = RunHead { lease, ..tunnel_head(0) };
        let (mut send, _recv) = within(link.at_edge.open_bi()).await.expect("a stream");
        let frame = encode(&[], &head, RUN_HEAD_BYTES).expect("a small head");
        within(send.write_all(&frame)).await.expect("a live stream");
        let (node_send, node_recv) = within(link.at_node.accept_bi()).await.expect("the stream");
        seen.push(within(NodeRun::accept(node_send, node_recv)).await.expect("a good head").head.lease);
        send.reset(StreamCode::Done.wire()).expect("an open stream");
    }
    assert_eq!(seen, (1..=20).collect::<Vec<_>>());
}
