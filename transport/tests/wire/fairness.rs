//! Streams do not hold each other up, and a connection has room for what its capacity needs.

use super::links::{Lease, Link, PATIENT, lease, link, tunnel_head, within};
use super::runs::{chunk, event, ok, opened};
use bytes::Bytes;
use iop_transport::endpoint;
use iop_transport::tunnel::{EdgeRun, OpenError};
use iop_transport::wire::{
    MAX_STREAMS, RunEvent, RunReply, STREAM_WINDOW_BYTES, send_window_bytes, stream_limit,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Opens runs whose readers stall, until the node can send no byte more to any of them.
async fn stalled(link: &Link, count: u64) -> Vec<EdgeRun<Lease>> {
    let sent = Arc::new(AtomicU64::new(0));
    let mut runs = Vec::new();
    for _ in 0..count {
        let (mut run, mut node, _drops) = opened(link, Vec::new()).await;
        let sent = sent.clone();
        tokio::spawn(async move {
            node.reply.head(&ok()).await.expect("a live stream");
            // Fails when the test is over and the edge is gone.
            while node.reply.bytes(Bytes::from_static(&[0; 1 << 16])).await.is_ok() {
                sent.fetch_add(1 << 16, Ordering::Relaxed);
            }
        });
        assert_eq!(within(run.reply()).await, Ok(ok()));
        runs.push(run);
    }
    // All but the last piece of each stream's window; what was read with the reply frees a little of it.
    let full = count * u64::from(STREAM_WINDOW_BYTES - (1 << 16));
    within(async {
        while sent.load(Ordering::Relaxed) < full {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    runs
}

#[tokio::test]
async fn readers_that_stall_hold_up_no_other_stream() {
    let link = link().await;
    let mut runs = stalled(&link, 50).await;
    let (mut run, mut node, drops) = opened(&link, Vec::new()).await;
    within(node.reply.head(&RunReply::Started)).await.expect("a live stream");
    assert_eq!(within(run.reply()).await, Ok(RunReply::Started));
    for number in 0..200 {
        let word = RunEvent::Text(number.to_string());
        within(node.reply.event(&word)).await.expect("a live stream");
        assert_eq!(event(&mut run).await, Ok(Some(word)));
    }
    node.reply.finish();
    assert_eq!(event(&mut run).await, Ok(None));
    assert_eq!(drops.count(), 1);
    let bytes = chunk(&mut runs[0]).await.expect("a stalled run is not lost").expect("and has not ended");
    assert!(!bytes.is_empty());
}

#[tokio::test]
async fn a_token_stream_goes_on_among_sixteen_bulk_transfers() {
    let link = link().await;
    let (mut run, mut node, _drops) = opened(&link, Vec::new()).await;
    within(node.reply.head(&RunReply::Started)).await.expect("a live stream");
    assert_eq!(within(run.reply()).await, Ok(RunReply::Started));
    let mut counts = Vec::new();
    for mut bulk in stalled(&link, 16).await {
        let count = Arc::new(AtomicU64::new(0));
        counts.push(count.clone());
        tokio::spawn(async move {
            while let Ok(Some(bytes)) = std::future::poll_fn(|cx| bulk.poll_chunk(cx)).await {
                count.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            }
        });
    }
    // Words go on until every transfer has moved far more than all windows together.
    let far = 4 * u64::from(STREAM_WINDOW_BYTES);
    let mut words = 0;
    while counts.iter().any(|count| count.load(Ordering::Relaxed) < far) {
        let word = RunEvent::Text(words.to_string());
        within(node.reply.event(&word)).await.expect("a live stream");
        assert_eq!(event(&mut run).await, Ok(Some(word)));
        words += 1;
    }
    println!("{words} words");
    assert!(words > 1, "they went on side by side");
}

#[tokio::test]
async fn a_connection_has_streams_for_its_capacity_and_resizing_works_at_once() {
    let link = link().await;
    let open = || async {
        let (lease, _drops) = lease();
        EdgeRun::open(&link.at_edge, &tunnel_head(0), Vec::new(), lease, PATIENT).await
    };
    let mut runs = Vec::new();
    for _ in 0..stream_limit(0) {
        runs.push(within(open()).await.expect("a stream"));
    }
    tokio::time::pause();
    assert_eq!(open().await.err(), Some(OpenError::NoStream), "one more has to wait, and not for long");
    tokio::time::resume();
    endpoint::resize(&link.at_node, 100);
    endpoint::resize(&link.at_edge, 100);
    for _ in stream_limit(0)..stream_limit(100) {
        runs.push(within(open()).await.expect("a stream"));
    }
    assert_eq!(runs.len(), 216);
}

#[tokio::test]
async fn ended_runs_give_their_streams_back() {
    let link = link().await;
    for number in 0..3 * stream_limit(0) {
        let (mut run, mut node, _drops) = opened(&link, vec![Bytes::from_static(b"ask")]).await;
        if number % 3 == 0 {
            continue;
        }
        within(node.reply.head(&ok())).await.expect("a live stream");
        assert_eq!(within(run.reply()).await, Ok(ok()));
        if number % 3 == 1 {
            node.reply.finish();
            assert_eq!(chunk(&mut run).await, Ok(None));
        }
    }
}

#[test]
fn the_send_window_has_room_for_every_stream_at_every_capacity() {
    for capacity in (0..2000).chain([u32::MAX / 2, u32::MAX]) {
        let streams = stream_limit(capacity);
        assert!(streams >= 64 && streams >= capacity.min(MAX_STREAMS), "{capacity}");
        assert!(
            send_window_bytes(streams) >= u64::from(streams) * u64::from(STREAM_WINDOW_BYTES),
            "{capacity}"
        );
    }
}
