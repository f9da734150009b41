//! The edge's half of a run: every way in which the node's half can end returns the lease once, at that moment.
//! Cancelling is shown in its own file.

use super::links::{Drops, EDGE_SETTINGS, Lease, Link, PATIENT, lease, link, pattern, tunnel_head, within};
use super::path::Process;
use super::runs::{RawNode, chunk, event, ok, opened, while_polling};
use bytes::Bytes;
use iop_transport::codes::{CloseCode, StreamCode};
use iop_transport::endpoint::QuicSettings;
use iop_transport::tunnel::{EdgeRun, RunLost};
use iop_transport::wire::{
    EVENT_FRAME_BYTES, RUN_HEAD_BYTES, Refusal, RefusalReason, RunEvent, RunReply, encode,
};
use quinn::ConnectionError;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

/// Waits for the run's loss; at the very poll that shows it, the lease is gone.
async fn lost(run: &mut EdgeRun<Lease>, drops: &Drops) -> RunLost {
    let lost = within(poll_fn(|cx| match run.poll_chunk(cx) {
        Poll::Ready(Err(lost)) => {
            assert_eq!(drops.count(), 1, "the lease goes before the loss is told");
            Poll::Ready(lost)
        }
        Poll::Ready(Ok(chunk)) => panic!("lost, but read {chunk:?}"),
        Poll::Pending => {
            assert_eq!(drops.count(), 0, "the lease stays while the node's half is open");
            Poll::Pending
        }
    }))
    .await;
    assert!(run.lease().is_none());
    assert_eq!(chunk(run).await, Err(lost.clone()), "a lost run never reads as a complete one later");
    assert_eq!(event(run).await, Err(lost.clone()), "nor as a complete normalized one");
    assert_eq!(drops.count(), 1);
    lost
}

// [lease-lifecycle] stream finish
#[tokio::test]
async fn a_finish_returns_the_lease_before_the_end_is_seen() {
    let link = link().await;
    let (mut run, mut node, drops) = opened(&link, vec![Bytes::from_static(b"ask")]).await;
    within(node.reply.head_and_bytes(&ok(), Bytes::from_static(b"answer"))).await.expect("a live stream");
    assert_eq!(within(run.reply()).await, Ok(ok()));
    assert_eq!(chunk(&mut run).await, Ok(Some(Bytes::from_static(b"answer"))));
    assert_eq!(drops.count(), 0, "the lease stays until the end");
    assert!(run.lease().is_some());
    node.reply.finish();
    let end = within(poll_fn(|cx| match run.poll_chunk(cx) {
        Poll::Ready(end) => {
            assert_eq!(drops.count(), 1, "the lease goes before the end is told");
            Poll::Ready(end)
        }
        Poll::Pending => Poll::Pending,
    }))
    .await;
    assert_eq!(end, Ok(None));
    assert_eq!(chunk(&mut run).await, Ok(None), "a complete run stays complete");
    drop(run);
    assert_eq!(drops.count(), 1, "its drop returns nothing twice");
}

// [lease-lifecycle] stream reset
#[tokio::test]
async fn a_reset_returns_the_lease_and_tells_the_nodes_code() {
    let link = link().await;
    for code in [StreamCode::UpstreamAborted, StreamCode::UpstreamStalled, StreamCode::NodeShutdown] {
        let (mut run, mut node, drops) = opened(&link, Vec::new()).await;
        within(node.reply.head(&ok())).await.expect("a live stream");
        assert_eq!(within(run.reply()).await, Ok(ok()));
        node.reply.fail(code);
        assert_eq!(lost(&mut run, &drops).await, RunLost::Reset { code: Some(code) });
    }
}

// [lease-lifecycle] stream reset
#[tokio::test]
async fn a_node_task_that_ends_without_an_outcome_loses_the_run() {
    let link = link().await;
    let (mut run, node, drops) = opened(&link, Vec::new()).await;
    drop(node);
    assert_eq!(lost(&mut run, &drops).await, RunLost::Reset { code: Some(StreamCode::NodeDropped) });
}

#[tokio::test]
async fn a_reset_with_a_strange_code_is_a_loss_without_a_code() {
    let link = link().await;
    let (lease, drops) = lease();
    let mut run = within(EdgeRun::open(&link.at_edge, &tunnel_head(0), Vec::new(), lease, PATIENT))
        .await
        .expect("a stream");
    let (mut send, _recv) =
        while_polling(&mut run, link.at_node.accept_bi()).await.expect("the run's stream");
    send.reset(quinn::VarInt::from_u32(0x3ff)).expect("an open stream");
    assert_eq!(lost(&mut run, &drops).await, RunLost::Reset { code: None });
}

// [lease-lifecycle] connection close, [disconnect-exclusion] a normal node exit waits for no timeout
#[tokio::test]
async fn a_connection_closed_by_the_node_returns_the_lease() {
    let link = link().await;
    let (mut run, node, drops) = opened(&link, Vec::new()).await;
    link.at_node.close(CloseCode::NodeShutdown.wire(), b"bye");
    let RunLost::Connection(ConnectionError::ApplicationClosed(close)) = lost(&mut run, &drops).await else {
        panic!("the node's close is what is seen");
    };
    assert_eq!(CloseCode::from_wire(close.error_code), Some(CloseCode::NodeShutdown));
    drop(node);
}

// [lease-lifecycle] connection close
#[tokio::test]
async fn a_connection_closed_by_the_edge_returns_the_lease() {
    let link = link().await;
    let (mut run, node, drops) = opened(&link, Vec::new()).await;
    link.at_edge.close(CloseCode::Superseded.wire(), b"");
    assert_eq!(lost(&mut run, &drops).await, RunLost::Connection(ConnectionError::LocallyClosed));
    drop(node);
}

// [lease-lifecycle] node disconnect
#[tokio::test]
async fn a_node_that_vanishes_returns_the_lease_after_the_idle_timeout() {
    let settings = QuicSettings { idle_timeout: Duration::from_millis(800), ..EDGE_SETTINGS };
    let (process, at_edge) = Process::node(settings, |_connection| std::future::ready(())).await;
    let (lease, mut drops) = lease();
    let mut run =
        within(EdgeRun::open(&at_edge, &tunnel_head(0), Vec::new(), lease, PATIENT)).await.expect("a stream");
    // The first poll sends the head.
    poll_fn(|cx| {
        assert!(run.poll_chunk(cx).is_pending(), "that node never answers");
        Poll::Ready(())
    })
    .await;
    process.kill();
    assert_eq!(lost(&mut run, &drops).await, RunLost::Connection(ConnectionError::TimedOut));
    drops.wait().await;
}

#[tokio::test]
async fn a_node_answers_while_a_large_upload_is_still_going_on() {
    let link = link().await;
    let (mut run, mut node, drops) = opened(&link, vec![pattern(8 << 20)]).await;
    let refused = RunReply::Refused(Refusal { reason: RefusalReason::GateFull, detail: "1 of 1".into() });
    within(node.reply.head(&refused)).await.expect("a live stream");
    node.reply.finish();
    assert_eq!(within(run.reply()).await, Ok(refused));
    assert_eq!(within(run.drain()).await, Ok(()));
    assert_eq!(drops.count(), 1);
    assert_eq!(within(node.body.cancelled()).await, StreamCode::Cancelled, "what is left is not sent");
}

#[tokio::test]
async fn an_upload_goes_on_while_the_answer_is_read() {
    let link = link().await;
    let body = pattern(3 << 20);
    let (mut run, mut node, drops) = opened(&link, vec![body.slice(..100), body.slice(100..)]).await;
    let echo = tokio::spawn(async move {
        node.reply.head(&ok()).await.expect("a live stream");
        while let Some(bytes) = node.body.chunk().await.expect("no cancel") {
            node.reply.bytes(bytes).await.expect("a live stream");
        }
        node.reply.finish();
        node.body.cancelled().await
    });
    assert_eq!(within(run.reply()).await, Ok(ok()));
    let mut read = Vec::new();
    while let Some(bytes) = chunk(&mut run).await.expect("a complete run") {
        read.extend_from_slice(&bytes);
    }
    assert!(read == body, "every byte comes back in its place");
    assert_eq!(drops.count(), 1);
    within(echo).await.expect("no panic");
}

#[tokio::test]
async fn events_arrive_in_order_and_the_end_is_clean() {
    let link = link().await;
    let (mut run, mut node, drops) = opened(&link, Vec::new()).await;
    let largest = RunEvent::Text("x".repeat(EVENT_FRAME_BYTES - 16));
    let sent = [RunEvent::Text("a".into()), largest, RunEvent::Failed("b".into())];
    let send = async {
        node.reply.head(&RunReply::Started).await.expect("a live stream");
        for event in &sent {
            node.reply.event(event).await.expect("within the limit");
        }
        node.reply.finish();
    };
    let receive = async {
        assert_eq!(run.reply().await, Ok(RunReply::Started));
        for expected in &sent {
            let received = event(&mut run).await.expect("no loss").expect("not the end yet");
            assert!(received == *expected, "the events are the ones sent");
        }
        assert_eq!(event(&mut run).await, Ok(None));
    };
    within(async { tokio::join!(send, receive) }).await;
    assert_eq!(drops.count(), 1);
}

/// Answers a run with these raw bytes and lets the stream open, or finishes it.
async fn answered_raw(link: &Link, bytes: &[u8], finish: bool) -> (EdgeRun<Lease>, RawNode, Drops) {
    let (lease, drops) = lease();
    let mut run = within(EdgeRun::open(&link.at_edge, &tunnel_head(0), Vec::new(), lease, PATIENT))
        .await
        .expect("a stream");
    let (mut send, recv) = while_polling(&mut run, link.at_node.accept_bi()).await.expect("the run's stream");
    within(send.write_all(bytes)).await.expect("a live stream");
    if finish {
        send.finish().expect("an open stream");
    }
    (run, RawNode { send, recv }, drops)
}

#[tokio::test]
async fn a_reply_over_the_limit_breaks_the_protocol_and_cancels_the_run() {
    let link = link().await;
    let prefix = u32::try_from(RUN_HEAD_BYTES + 1).expect("a small limit").to_be_bytes();
    let (mut run, mut node, mut drops) = answered_raw(&link, &prefix, false).await;
    let result = within(run.reply()).await;
    let expected = "the node broke the protocol: a message of 65537 bytes is over the limit of 65536";
    assert_eq!(result.as_ref().map_err(ToString::to_string), Err(expected.to_string()));
    assert_eq!(chunk(&mut run).await, result.map(|_| None), "it stays broken");
    assert_eq!(node.cancel_code().await, Some(StreamCode::Protocol));
    assert_eq!(drops.count(), 0, "the node has not ended its half");
    node.send.reset(StreamCode::Cancelled.wire()).expect("an open stream");
    drops.wait().await;
}

#[tokio::test]
async fn a_run_that_ends_inside_a_message_is_not_complete() {
    let link = link().await;
    let frame = encode(&[], &RunReply::Started, RUN_HEAD_BYTES).expect("a small message");
    let message = encode(&[], &RunEvent::Text("word".into()), EVENT_FRAME_BYTES).expect("a small message");
    let mut looked_at = 0;
    for cut in 1..message.len() {
        let bytes = [&frame[..], &message[..cut]].concat();
        let (mut run, _node, drops) = answered_raw(&link, &bytes, true).await;
        assert_eq!(within(run.reply()).await, Ok(RunReply::Started));
        let expected = RunLost::Protocol("the run ended inside a message".into());
        assert_eq!(event(&mut run).await, Err(expected.clone()), "cut after {cut} bytes");
        assert_eq!(event(&mut run).await, Err(expected), "cut after {cut} bytes, asked again");
        assert_eq!(drops.count(), 1);
        looked_at += 1;
    }
    assert_eq!(looked_at, 9);
}

#[tokio::test]
async fn a_run_that_ends_without_a_reply_is_not_complete() {
    let link = link().await;
    let (mut run, _node, drops) = answered_raw(&link, b"", true).await;
    let expected = RunLost::Protocol("the run ended without a reply".into());
    assert_eq!(within(run.reply()).await, Err(expected.clone()));
    assert_eq!(chunk(&mut run).await, Err(expected));
    assert_eq!(drops.count(), 1);
}

#[tokio::test]
async fn an_ended_run_tells_the_node_that_nothing_was_cancelled() {
    let link = link().await;
    let frame = encode(&[], &ok(), RUN_HEAD_BYTES).expect("a small message");
    let (mut run, mut node, _drops) = answered_raw(&link, &frame, true).await;
    assert_eq!(within(run.reply()).await, Ok(ok()));
    assert_eq!(chunk(&mut run).await, Ok(None));
    assert_eq!(node.cancel_code().await, Some(StreamCode::Done));
}
