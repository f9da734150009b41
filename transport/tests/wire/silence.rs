//! A node whose connection stands and who says nothing of a run: the edge's half gives the run up, and only time in which
//! the edge waits for the node counts.

use super::links::{Drops, Lease, Link, PATIENT, lease, link, pattern, tunnel_head, within};
use super::runs::{RawNode, chunk, event, ok, while_polling};
use bytes::Bytes;
use iop_transport::codes::StreamCode;
use iop_transport::tunnel::{EdgeRun, Patience, RunLost};
use iop_transport::wire::{EVENT_FRAME_BYTES, RUN_HEAD_BYTES, RunEvent, RunReply, encode};
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

/// A limit that is reached in the test.
const SHORT: Duration = Duration::from_millis(200);

/// A limit that is not reached, though more than this passes in all.
const ENOUGH: Duration = Duration::from_secs(2);

/// A pause of the node's, far below that.
const PAUSE: Duration = Duration::from_millis(250);

async fn opened(link: &Link, body: usize, patience: Patience) -> (EdgeRun<Lease>, RawNode, Drops) {
    let (lease, drops) = lease();
    let body = pattern(body);
    let head = tunnel_head(body.len() as u64);
    let run = within(EdgeRun::open(&link.at_edge, &head, vec![body], lease, patience)).await;
    let mut run = run.expect("a stream");
    let (send, recv) = while_polling(&mut run, link.at_node.accept_bi()).await.expect("the run's stream");
    (run, RawNode { send, recv }, drops)
}

fn reply(reply: &RunReply) -> Bytes {
    encode(&[], reply, RUN_HEAD_BYTES).expect("a small message")
}

/// The run was cancelled for silence; its lease returns when the node ends it, and not before.
async fn assert_given_up(run: &mut EdgeRun<Lease>, mut node: RawNode, mut drops: Drops) {
    let lost = Err(RunLost::Silent { limit: SHORT });
    assert_eq!(chunk(run).await, lost, "it stays lost");
    assert_eq!(event(run).await, lost.map(|_: Option<Bytes>| None), "for normalized runs too");
    assert_eq!(node.cancel_code().await, Some(StreamCode::NodeSilent));
    assert_eq!(drops.count(), 0, "the slot is not freed by age");
    node.send.reset(StreamCode::Cancelled.wire()).expect("an open stream");
    drops.wait().await;
}

// [lease-lifecycle] a node that takes a run and does not reply
#[tokio::test]
async fn a_run_without_a_reply_is_cancelled() {
    let link = link().await;
    let patience = Patience { reply: SHORT, ..PATIENT };
    // The whole request is taken, or what is beyond the window is not.
    for body in [3, 4 << 20] {
        let (lease, drops) = lease();
        let head = tunnel_head(body as u64);
        let run = EdgeRun::open(&link.at_edge, &head, vec![pattern(body)], lease, patience);
        let mut run = within(run).await.expect("a stream");
        assert_eq!(within(run.reply()).await, Err(RunLost::Silent { limit: SHORT }), "{body} bytes");
        let (send, recv) = within(link.at_node.accept_bi()).await.expect("the run's stream");
        assert_given_up(&mut run, RawNode { send, recv }, drops).await;
    }
}

// [lease-lifecycle] a node that begins an answer and does not go on
#[tokio::test]
async fn a_run_that_falls_silent_in_its_answer_is_cancelled() {
    let link = link().await;
    let patience = Patience { idle: SHORT, ..PATIENT };
    let text = encode(&[], &RunEvent::Text("word".into()), EVENT_FRAME_BYTES).expect("a small message");
    // Behind the head, and inside of an event.
    for sent in [0, 1, text.len() - 1] {
        let (mut run, mut node, drops) = opened(&link, 3, patience).await;
        node.send.write_all(&reply(&RunReply::Started)).await.expect("a live stream");
        node.send.write_all(&text[..sent]).await.expect("a live stream");
        assert_eq!(within(run.reply()).await, Ok(RunReply::Started));
        assert_eq!(event(&mut run).await, Err(RunLost::Silent { limit: SHORT }), "after {sent} bytes");
        assert_given_up(&mut run, node, drops).await;
    }
    let (mut run, mut node, drops) = opened(&link, 3, patience).await;
    node.send.write_all(&reply(&ok())).await.expect("a live stream");
    node.send.write_all(b"bytes").await.expect("a live stream");
    assert_eq!(within(run.reply()).await, Ok(ok()));
    assert_eq!(chunk(&mut run).await, Ok(Some(Bytes::from_static(b"bytes"))));
    assert_eq!(chunk(&mut run).await, Err(RunLost::Silent { limit: SHORT }));
    assert_given_up(&mut run, node, drops).await;
}

#[tokio::test]
async fn each_byte_of_the_reply_and_of_the_answer_is_waited_for_anew() {
    const ANSWER: &[u8] = b"an answer";
    let link = link().await;
    let (mut run, mut node, drops) = opened(&link, 3, Patience { reply: ENOUGH, idle: ENOUGH }).await;
    let head =
        RunReply::Response { status: 200, headers: vec![("name".into(), Bytes::from_static(b"value"))] };
    let sent = reply(&head);
    for part in [&sent, ANSWER] {
        assert!(
            PAUSE * u32::try_from(part.len()).expect("few bytes") > ENOUGH,
            "each part takes longer in all"
        );
    }
    let slow = tokio::spawn(async move {
        for byte in [&sent, ANSWER].concat() {
            tokio::time::sleep(PAUSE).await;
            node.send.write_all(&[byte]).await.expect("a live stream");
        }
        node.send.finish().expect("an open stream");
    });
    assert_eq!(within(run.reply()).await, Ok(head));
    let mut read = Vec::new();
    while let Some(bytes) = chunk(&mut run).await.expect("a complete run") {
        read.extend_from_slice(&bytes);
    }
    assert_eq!(read, ANSWER);
    slow.await.expect("the node ends");
    assert_eq!(drops.count(), 1);
}

#[tokio::test]
async fn a_node_that_takes_its_time_with_the_request_is_waited_for_from_its_last_part_on() {
    const PIECE: usize = 128 << 10;
    const PIECES: u32 = 12;
    let link = link().await;
    let patience = Patience { reply: ENOUGH, ..PATIENT };
    let (mut run, mut node, drops) = opened(&link, PIECE * PIECES as usize, patience).await;
    let slow = tokio::spawn(async move {
        let mut piece = vec![0; PIECE];
        for _ in 0..PIECES {
            tokio::time::sleep(PAUSE).await;
            node.recv.read_exact(&mut piece).await.expect("the request goes on");
        }
        node.send.write_all(&reply(&ok())).await.expect("a live stream");
        node.send.finish().expect("an open stream");
    });
    assert!(PAUSE * PIECES > ENOUGH, "the whole takes longer than a part may");
    assert_eq!(within(run.reply()).await, Ok(ok()));
    assert_eq!(chunk(&mut run).await, Ok(None));
    slow.await.expect("the node ends");
    assert_eq!(drops.count(), 1);
}

#[tokio::test]
async fn time_in_which_nobody_reads_on_is_no_silence_of_the_node() {
    let link = link().await;
    let (mut run, mut node, drops) = opened(&link, 3, Patience { idle: SHORT, ..PATIENT }).await;
    node.send.write_all(&reply(&ok())).await.expect("a live stream");
    assert_eq!(within(run.reply()).await, Ok(ok()));
    // A wait begins, and is not gone on with.
    poll_fn(|cx| {
        assert!(run.poll_chunk(cx).is_pending(), "nothing was sent");
        Poll::Ready(())
    })
    .await;
    let body = pattern(300_000);
    node.send.write_all(&body).await.expect("a live stream");
    node.send.finish().expect("an open stream");
    assert_eq!(within(node.send.stopped()).await, Ok(None), "all of it has arrived");
    tokio::time::sleep(2 * SHORT).await;
    let mut read = Vec::new();
    while let Some(bytes) = chunk(&mut run).await.expect("a complete run") {
        read.extend_from_slice(&bytes);
    }
    assert!(read == body, "every byte in its place");
    assert_eq!(drops.count(), 1);
}
