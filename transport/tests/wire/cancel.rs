//! Cancelled runs: the node hears of it, and the lease is held until the node has ended its half, or the connection.

use super::links::{
    EDGE_SETTINGS, Lease, NODE_SETTINGS, PATIENT, lease, link, link_with, pattern, tunnel_head, within,
};
use super::runs::{RawNode, chunk, ok, opened, while_polling};
use bytes::Bytes;
use iop_transport::codes::{CloseCode, StreamCode};
use iop_transport::endpoint::QuicSettings;
use iop_transport::tunnel::{EdgeRun, HeadError, NodeRun, RunLost};
use iop_transport::wire::{FrameError, Refusal, RefusalReason, RunReply};
use quinn::{Connection, ConnectionError};
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

/// Shows that the node's half still holds the lease, and that its end returns it.
async fn ends_with_the_nodes_half(node: NodeRun, mut drops: super::links::Drops) {
    assert_eq!(drops.count(), 0, "the node has heard of the cancel, but has not ended");
    node.reply.fail(StreamCode::Cancelled);
    drops.wait().await;
}

/// Sends what the run has to send as far as it goes now.
async fn poll_once(run: &mut EdgeRun<Lease>) {
    poll_fn(|cx| {
        assert!(run.poll_chunk(cx).is_pending(), "the node has sent nothing");
        Poll::Ready(())
    })
    .await;
}

/// A run whose node does as the test likes.
async fn opened_raw(
    at_edge: &Connection,
    at_node: &Connection,
) -> (EdgeRun<Lease>, RawNode, super::links::Drops) {
    let (lease, drops) = lease();
    let mut run =
        within(EdgeRun::open(at_edge, &tunnel_head(0), Vec::new(), lease, PATIENT)).await.expect("a stream");
    let (send, recv) = while_polling(&mut run, at_node.accept_bi()).await.expect("the run's stream");
    (run, RawNode { send, recv }, drops)
}

// [lease-lifecycle] client cancel
#[tokio::test]
async fn a_run_dropped_during_the_upload_is_cancelled() {
    let link = link().await;
    let (run, mut node, drops) = opened(&link, vec![pattern(8 << 20)]).await;
    drop(run);
    assert_eq!(within(node.body.cancelled()).await, StreamCode::Cancelled);
    assert_eq!(within(node.body.chunk()).await, Err(StreamCode::Cancelled), "and the body does not go on");
    ends_with_the_nodes_half(node, drops).await;
}

// [lease-lifecycle] client cancel
#[tokio::test]
async fn a_run_dropped_before_its_reply_is_cancelled() {
    let link = link().await;
    let (run, mut node, drops) = opened(&link, vec![Bytes::from_static(b"ask")]).await;
    assert_eq!(within(node.body.chunk()).await, Ok(Some(Bytes::from_static(b"ask"))));
    assert_eq!(within(node.body.chunk()).await, Ok(None));
    drop(run);
    assert_eq!(within(node.body.cancelled()).await, StreamCode::Cancelled);
    ends_with_the_nodes_half(node, drops).await;
}

// [lease-lifecycle] client cancel
#[tokio::test]
async fn a_run_dropped_in_the_middle_of_its_answer_is_cancelled() {
    let link = link().await;
    let (mut run, mut node, drops) = opened(&link, Vec::new()).await;
    within(node.reply.head_and_bytes(&ok(), Bytes::from_static(b"ans"))).await.expect("a live stream");
    assert_eq!(within(run.reply()).await, Ok(ok()));
    assert_eq!(chunk(&mut run).await, Ok(Some(Bytes::from_static(b"ans"))));
    drop(run);
    assert_eq!(within(node.body.cancelled()).await, StreamCode::Cancelled);
    within(node.reply.bytes(pattern(2 << 20)))
        .await
        .expect("what comes after a cancel is read and discarded");
    ends_with_the_nodes_half(node, drops).await;
}

// [lease-lifecycle] client cancel: the node need not have begun
#[tokio::test]
async fn a_run_dropped_before_its_head_is_sent_ends_as_cancelled() {
    let link = link().await;
    let (lease, mut drops) = lease();
    let run = within(EdgeRun::open(&link.at_edge, &tunnel_head(0), Vec::new(), lease, PATIENT))
        .await
        .expect("a stream");
    drop(run);
    let (send, recv) = within(link.at_node.accept_bi()).await.expect("the run's stream");
    assert_eq!(drops.count(), 0);
    let Err(HeadError::Frame(FrameError::Read(quinn::ReadError::Reset(code)))) =
        within(NodeRun::accept(send, recv)).await
    else {
        panic!("the edge's reset is what is read");
    };
    assert_eq!(StreamCode::from_wire(code), Some(StreamCode::ClientGone));
    drops.wait().await;
}

#[tokio::test]
async fn a_cancel_carries_the_code_that_was_set_in_every_phase_of_the_upload() {
    let link = link().await;
    let codes =
        [StreamCode::ClientGone, StreamCode::ClientStalled, StreamCode::Fenced, StreamCode::EdgeShutdown];
    for code in codes {
        for body in [0, 4 << 20] {
            let (lease, mut drops) = lease();
            let head = tunnel_head(body as u64);
            let open = EdgeRun::open(&link.at_edge, &head, vec![pattern(body)], lease, PATIENT);
            let mut run = within(open).await.expect("a stream");
            poll_once(&mut run).await;
            let (send, recv) = within(link.at_node.accept_bi()).await.expect("the run's stream");
            let mut node = RawNode { send, recv };
            run.set_cancel_code(code);
            drop(run);
            assert_eq!(node.cancel_code().await, Some(code), "with {body} bytes to upload");
            assert_eq!(drops.count(), 0);
            node.send.reset(StreamCode::Cancelled.wire()).expect("an open stream");
            drops.wait().await;
        }
    }
}

// [lease-lifecycle] a complete answer that nobody reads any more still returns the lease
#[tokio::test]
async fn a_cancel_that_meets_a_complete_answer_ends_at_its_finish() {
    let link = link().await;
    let (mut run, mut node, mut drops) = opened(&link, Vec::new()).await;
    within(node.reply.head_and_bytes(&ok(), pattern(1 << 16))).await.expect("a live stream");
    assert_eq!(within(run.reply()).await, Ok(ok()));
    drop(run);
    node.reply.finish();
    drops.wait().await;
    assert_eq!(link.at_edge.close_reason(), None, "the connection stays");
}

// [lease-lifecycle] client cancel and connection close race
#[tokio::test]
async fn a_cancelled_runs_lease_returns_when_the_connection_is_lost() {
    let link = link().await;
    let (run, mut node, mut drops) = opened(&link, Vec::new()).await;
    drop(run);
    assert_eq!(within(node.body.cancelled()).await, StreamCode::Cancelled);
    assert_eq!(drops.count(), 0);
    link.at_node.close(CloseCode::NodeShutdown.wire(), b"");
    drops.wait().await;
}

/// How long a cancelled run may take, as the contract says.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(10);

/// A link that outlives the cancel timeout.
async fn patient_link() -> super::links::Link {
    let idle_timeout = Duration::from_secs(60);
    link_with(QuicSettings { idle_timeout, ..EDGE_SETTINGS }, QuicSettings { idle_timeout, ..NODE_SETTINGS })
        .await
}

// [lease-lifecycle] a slot is never freed by age alone: the connection goes with it
#[tokio::test]
async fn a_node_that_never_ends_a_cancelled_run_loses_its_connection_and_only_then_the_lease_returns() {
    let link = patient_link().await;
    let (run, mut node, mut drops) = opened_raw(&link.at_edge, &link.at_node).await;
    drop(run);
    assert_eq!(node.cancel_code().await, Some(StreamCode::ClientGone));
    tokio::time::pause();
    let cancelled = tokio::time::Instant::now();
    tokio::time::sleep(CANCEL_TIMEOUT - Duration::from_millis(500)).await;
    assert_eq!(drops.count(), 0, "not before the timeout");
    assert_eq!(link.at_edge.close_reason(), None);
    drops.wait().await;
    assert_eq!(
        link.at_edge.close_reason(),
        Some(ConnectionError::LocallyClosed),
        "closed before the lease went"
    );
    assert!(cancelled.elapsed() < CANCEL_TIMEOUT + Duration::from_secs(1));
    let ConnectionError::ApplicationClosed(close) = within(link.at_node.closed()).await else {
        panic!("the edge's close is what is seen");
    };
    assert_eq!(CloseCode::from_wire(close.error_code), Some(CloseCode::CancelTimeout));
}

// [lease-lifecycle] sending for ever is not ending
#[tokio::test]
async fn a_node_that_goes_on_sending_after_a_cancel_loses_its_connection_too() {
    let link = patient_link().await;
    let (run, mut node, mut drops) = opened_raw(&link.at_edge, &link.at_node).await;
    drop(run);
    assert_eq!(node.cancel_code().await, Some(StreamCode::ClientGone));
    tokio::time::pause();
    let babble = async {
        while node.send.write_all(b"word").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::join!(babble, drops.wait());
    assert_eq!(link.at_edge.close_reason(), Some(ConnectionError::LocallyClosed));
}

// [lease-lifecycle] a refusal that never ends
#[tokio::test]
async fn a_node_that_never_ends_a_refused_run_is_cancelled_and_then_loses_its_connection() {
    let link = patient_link().await;
    let (mut run, mut node, mut drops) = opened(&link, Vec::new()).await;
    let refused = RunReply::Refused(Refusal { reason: RefusalReason::Busy, detail: String::new() });
    within(node.reply.head(&refused)).await.expect("a live stream");
    assert_eq!(within(run.reply()).await, Ok(refused));
    tokio::time::pause();
    let drained = run.drain().await;
    assert_eq!(drained, Err(RunLost::Protocol("the run did not end after its last message".into())));
    assert_eq!(node.body.cancelled().await, StreamCode::Cancelled);
    assert_eq!(drops.count(), 0);
    drops.wait().await;
    assert_eq!(link.at_edge.close_reason(), Some(ConnectionError::LocallyClosed));
}

// The process ends while runs are on: nothing is left to wait for, and nothing panics.
#[test]
fn a_run_dropped_with_its_runtime_returns_the_lease() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let drops = runtime.block_on(async {
        let link = link().await;
        let (mut run, node, drops) = opened(&link, Vec::new()).await;
        tokio::spawn(async move {
            let _outcome = run.reply().await;
            drop((node, link));
        });
        tokio::task::yield_now().await;
        drops
    });
    assert_eq!(drops.count(), 0);
    drop(runtime);
    assert_eq!(drops.count(), 1);
}

#[test]
fn a_run_dropped_after_its_runtime_returns_the_lease() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (run, drops) = runtime.block_on(async {
        let link = link().await;
        let (run, _node, drops) = opened(&link, Vec::new()).await;
        (run, drops)
    });
    drop(runtime);
    drop(run);
    assert_eq!(drops.count(), 1);
}
