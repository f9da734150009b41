//! Runs that are open on both ends, for the tests of either half.

use super::links::{DEADLINE, Drops, Lease, Link, PATIENT, lease, tunnel_head, within};
use bytes::Bytes;
use iop_transport::codes::StreamCode;
use iop_transport::tunnel::{EdgeRun, NodeRun, RunLost};
use iop_transport::wire::{RunEvent, RunReply};
use quinn::Connection;
use std::future::poll_fn;

/// A response head without headers.
pub(super) fn ok() -> RunReply {
    RunReply::Response { status: 200, headers: Vec::new() }
}

/// A run that is open on both ends.
pub(super) async fn opened(link: &Link, body: Vec<Bytes>) -> (EdgeRun<Lease>, NodeRun, Drops) {
    let (lease, drops) = lease();
    let length = body.iter().map(|chunk| chunk.len() as u64).sum();
    let head = tunnel_head(length);
    let mut run = within(EdgeRun::open(&link.at_edge, &head, body, lease, PATIENT)).await.expect("a stream");
    let node = while_polling(&mut run, accept(&link.at_node)).await;
    assert_eq!(node.head, head);
    (run, node, drops)
}

pub(super) async fn accept(at_node: &Connection) -> NodeRun {
    let (send, recv) = at_node.accept_bi().await.expect("the run's stream");
    NodeRun::accept(send, recv).await.expect("a good head")
}

/// Drives the edge's half while the node does something before it answers.
pub(super) async fn while_polling<T>(run: &mut EdgeRun<Lease>, node: impl Future<Output = T>) -> T {
    tokio::select! {
        outcome = run.reply() => panic!("nothing was answered yet, but: {outcome:?}"),
        value = node => value,
        () = tokio::time::sleep(DEADLINE) => panic!("the node's side hangs"),
    }
}

pub(super) async fn chunk(run: &mut EdgeRun<Lease>) -> Result<Option<Bytes>, RunLost> {
    within(poll_fn(|cx| run.poll_chunk(cx))).await
}

pub(super) async fn event(run: &mut EdgeRun<Lease>) -> Result<Option<RunEvent>, RunLost> {
    within(poll_fn(|cx| run.poll_event(cx))).await
}

/// A node's half that does as the test likes.
pub(super) struct RawNode {
    pub(super) send: quinn::SendStream,
    pub(super) recv: quinn::RecvStream,
}

impl RawNode {
    /// The code with which the edge resets its half.
    pub(super) async fn cancel_code(&mut self) -> Option<StreamCode> {
        loop {
            match within(self.recv.read_chunk(1 << 16, true)).await {
                Ok(Some(_head_or_body)) => {}
                Ok(None) => panic!("the edge never finishes its half"),
                Err(quinn::ReadError::Reset(code)) => return StreamCode::from_wire(code),
                Err(error) => panic!("{error}"),
            }
        }
    }
}
