//! The sending half that RESETs when it is dropped. What the runs make of it is shown elsewhere.

use super::links::{link, within};
use bytes::Bytes;
use iop_transport::codes::StreamCode;
use iop_transport::send::{ResetOnDrop, SendError};
use quinn::ReadError;

#[tokio::test]
async fn a_dropped_half_reads_as_a_reset_with_its_code_and_never_as_an_end() {
    let link = link().await;
    let (stream, _recv) = within(link.at_edge.open_bi()).await.expect("a stream");
    let mut half = ResetOnDrop::new(stream, StreamCode::Fenced);
    within(half.write(&mut [Bytes::from_static(b"half of it")])).await.expect("a live stream");
    let (_send, mut recv) = within(link.at_node.accept_bi()).await.expect("the stream");
    let first = within(recv.read_chunk(1024, true)).await.expect("the bytes").expect("bytes, not the end");
    assert_eq!(&first.bytes[..], b"half of it");
    drop(half);
    let end = within(recv.read_chunk(1024, true)).await.map(|chunk| chunk.is_some());
    assert_eq!(end, Err(ReadError::Reset(StreamCode::Fenced.wire())));
}

#[tokio::test]
async fn a_panicking_task_resets_its_half() {
    let link = link().await;
    let (stream, _recv) = within(link.at_edge.open_bi()).await.expect("a stream");
    let mut half = ResetOnDrop::new(stream, StreamCode::NodeDropped);
    let task = tokio::spawn(async move {
        half.write(&mut [Bytes::from_static(b"half of it")]).await.expect("a live stream");
        panic!("on purpose: what a bug does");
    });
    assert!(within(task).await.expect_err("it panics").is_panic());
    let (_send, mut recv) = within(link.at_node.accept_bi()).await.expect("the stream");
    let end = within(recv.read_to_end(1024)).await;
    assert_eq!(
        end,
        Err(quinn::ReadToEndError::Read(ReadError::Reset(StreamCode::NodeDropped.wire()))),
        "whatever was read before, the end is a reset"
    );
}

#[tokio::test]
async fn an_aborted_task_resets_its_half() {
    let link = link().await;
    let (stream, _recv) = within(link.at_edge.open_bi()).await.expect("a stream");
    let mut half = ResetOnDrop::new(stream, StreamCode::NodeDropped);
    let (written, is_written) = tokio::sync::oneshot::channel();
    let task = tokio::spawn(async move {
        half.write(&mut [Bytes::from_static(b"half of it")]).await.expect("a live stream");
        written.send(()).expect("the test waits");
        std::future::pending::<()>().await;
        drop(half);
    });
    within(is_written).await.expect("it writes");
    task.abort();
    let (_send, mut recv) = within(link.at_node.accept_bi()).await.expect("the stream");
    let end = within(recv.read_to_end(1024)).await;
    assert_eq!(end, Err(quinn::ReadToEndError::Read(ReadError::Reset(StreamCode::NodeDropped.wire()))));
}

#[tokio::test]
async fn a_finished_half_reads_whole_and_then_ends() {
    let link = link().await;
    let (stream, _recv) = within(link.at_edge.open_bi()).await.expect("a stream");
    let mut half = ResetOnDrop::new(stream, StreamCode::Fenced);
    let mut chunks = [Bytes::from_static(b"all "), Bytes::new(), Bytes::from_static(b"of it")];
    within(half.write(&mut chunks)).await.expect("a live stream");
    half.finish();
    let (_send, mut recv) = within(link.at_node.accept_bi()).await.expect("the stream");
    assert_eq!(within(recv.read_to_end(1024)).await.expect("a clean end"), b"all of it");
}

#[tokio::test]
async fn nothing_can_be_written_after_a_reset_and_the_first_code_stays() {
    let link = link().await;
    let (stream, _recv) = within(link.at_edge.open_bi()).await.expect("a stream");
    let mut half = ResetOnDrop::new(stream, StreamCode::Fenced);
    half.reset(StreamCode::ClientStalled);
    half.reset(StreamCode::EdgeShutdown);
    let write = within(half.write(&mut [Bytes::from_static(b"more")])).await;
    assert_eq!(write, Err(SendError::Ended));
    drop(half);
    let (_send, mut recv) = within(link.at_node.accept_bi()).await.expect("the stream");
    let end = within(recv.read_to_end(1024)).await;
    assert_eq!(end, Err(quinn::ReadToEndError::Read(ReadError::Reset(StreamCode::ClientStalled.wire()))));
}
