//! Many short runs with ends at random: every lease returns once, and never before the node's slot is free.

use super::links::{EDGE_SETTINGS, PATIENT, pattern, tunnel_head, within};
use super::path::Process;
use bytes::Bytes;
use iop_transport::codes::{CloseCode, StreamCode};
use iop_transport::endpoint::{self, QuicSettings};
use iop_transport::tunnel::{EdgeRun, NodeReply, NodeRun, RunLost};
use iop_transport::wire::{Refusal, RefusalReason, RunHead, RunReply};
use quinn::Connection;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Slots, on both ends.
const CAPACITY: u32 = 32;

/// Clients that ask at once: more than there are slots.
const CLIENTS: u64 = 64;

/// Runs of one soak. Both ends and all clients share two threads; this many take a few seconds without optimization.
const RUNS: u64 = 20_000;

/// Splits a seed into numbers (SplitMix64), so that a run is the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// How a run ends if nobody cancels it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Complete,
    UpstreamAborted,
    TaskDropped,
}

/// What a lease's number decides: the answer's length in pieces, its end, and after how many steps the client goes away.
fn script(lease: u64) -> (u64, End, Option<u64>) {
    let mut numbers = Numbers(lease);
    let pieces = numbers.below(6);
    let end = match numbers.below(10) {
        0 => End::UpstreamAborted,
        1 => End::TaskDropped,
        _ => End::Complete,
    };
    let patience = (numbers.below(3) == 0).then(|| numbers.below(12) / (1 + numbers.below(6)));
    (pieces, end, patience)
}

/// The piece of an answer; no two runs have the same.
fn piece(lease: u64, number: u64) -> Bytes {
    let start = ((lease + number) % 200) as usize;
    pattern(1200).slice(start..start + 1000)
}

/// The node's gate, and how full it has been.
struct Gate {
    slots: Arc<Semaphore>,
    most: AtomicU32,
    refused: AtomicU32,
}

async fn serve(connection: Connection, gate: Arc<Gate>) {
    while let Ok((send, recv)) = connection.accept_bi().await {
        let gate = gate.clone();
        tokio::spawn(async move {
            // Cancelled before its head was read: nothing was begun.
            if let Ok(run) = NodeRun::accept(send, recv).await {
                serve_run(run, &gate).await;
            }
        });
    }
}

async fn serve_run(mut run: NodeRun, gate: &Gate) {
    // Declared after the run, so dropped before it: the slot is free before the edge can know of the end.
    let Ok(slot) = gate.slots.clone().try_acquire_owned() else {
        gate.refused.fetch_add(1, Ordering::Relaxed);
        let refusal = Refusal { reason: RefusalReason::GateFull, detail: String::new() };
        // A lost edge needs no answer.
        let _sent = run.reply.head(&RunReply::Refused(refusal)).await;
        return run.reply.finish();
    };
    let held = CAPACITY - u32::try_from(gate.slots.available_permits()).expect("few slots");
    gate.most.fetch_max(held, Ordering::Relaxed);
    let (pieces, end, _patience) = script(run.head.lease);
    let NodeRun { head, mut body, mut reply } = run;
    let answered = tokio::select! {
        biased;
        code = read_and_watch(&mut body) => Err(code),
        sent = answer(&mut reply, &head, pieces) => Ok(sent),
    };
    match (answered, end) {
        (Err(code), _) => {
            drop(slot);
            reply.fail(code);
        }
        (Ok(()), End::Complete) => {
            drop(slot);
            reply.finish();
        }
        (Ok(()), End::UpstreamAborted) => {
            drop(slot);
            reply.fail(StreamCode::UpstreamAborted);
        }
        (Ok(()), End::TaskDropped) => {
            drop(slot);
            drop(reply);
        }
    }
}

/// Reads the body, then waits for a cancel.
async fn read_and_watch(body: &mut iop_transport::tunnel::RunBody) -> StreamCode {
    loop {
        match body.chunk().await {
            Ok(Some(_bytes)) => {}
            Ok(None) => return body.cancelled().await,
            Err(code) => return code,
        }
    }
}

async fn answer(reply: &mut NodeReply, head: &RunHead, pieces: u64) {
    // Errors mean that the edge is gone: the watch on the body says so too.
    let _sent = reply.head(&RunReply::Started).await;
    for number in 0..pieces {
        tokio::task::yield_now().await;
        let _sent = reply.bytes(piece(head.lease, number)).await;
    }
}

/// A lease that holds the edge's slot and counts its return.
struct Lease {
    number: u64,
    returned: Arc<Vec<AtomicU32>>,
    _slot: OwnedSemaphorePermit,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.returned[self.number as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// How often each end was seen.
#[derive(Debug, Default)]
struct Tally {
    complete: AtomicUsize,
    aborted: AtomicUsize,
    dropped: AtomicUsize,
    cancelled: AtomicUsize,
}

/// Reads one run to its end, and checks that the end is the one that its script says.
async fn read(run: &mut EdgeRun<Lease>, lease: u64, tally: &Tally) {
    let (pieces, end, _patience) = script(lease);
    let mut expected = Vec::new();
    for number in 0..pieces {
        expected.extend_from_slice(&piece(lease, number));
    }
    let result = async {
        let reply = run.reply().await?;
        assert_eq!(reply, RunReply::Started, "admission leaves the gate nothing to refuse");
        let mut read = Vec::new();
        while let Some(bytes) = poll_fn(|cx| run.poll_chunk(cx)).await? {
            read.extend_from_slice(&bytes);
        }
        assert!(read == expected, "run {lease} reads as complete, so it is");
        Ok(())
    }
    .await;
    let (seen, counter) = match result {
        Ok(()) => (End::Complete, &tally.complete),
        Err(RunLost::Reset { code: Some(StreamCode::UpstreamAborted) }) => {
            (End::UpstreamAborted, &tally.aborted)
        }
        Err(RunLost::Reset { code: Some(StreamCode::NodeDropped) }) => (End::TaskDropped, &tally.dropped),
        Err(lost) => panic!("run {lease}: {lost}"),
    };
    assert_eq!(seen, end, "run {lease}");
    counter.fetch_add(1, Ordering::Relaxed);
}

async fn client(
    connection: Connection,
    first: u64,
    slots: Arc<Semaphore>,
    returned: Arc<Vec<AtomicU32>>,
    tally: Arc<Tally>,
) {
    for number in (first..RUNS).step_by(CLIENTS as usize) {
        let slot = slots.clone().acquire_owned().await.expect("the slots stay open");
        let body = piece(number, 0);
        let head = RunHead { lease: number, ..tunnel_head(body.len() as u64) };
        let lease = Lease { number, returned: returned.clone(), _slot: slot };
        let mut run =
            EdgeRun::open(&connection, &head, vec![body], lease, PATIENT).await.expect("a stream is free");
        let (_pieces, _end, patience) = script(number);
        let client_goes = async {
            match patience {
                Some(steps) => {
                    for _ in 0..steps {
                        tokio::task::yield_now().await;
                    }
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = client_goes => {
                tally.cancelled.fetch_add(1, Ordering::Relaxed);
            }
            () = read(&mut run, number, &tally) => {}
        }
    }
}

// [lease-lifecycle] every end at once; [tunnel-guard] the gate refuses nothing that was rightly admitted
#[tokio::test]
async fn twenty_thousand_runs_with_random_ends_return_every_lease_once_and_never_overfill_the_gate() {
    let gate = Arc::new(Gate {
        slots: Arc::new(Semaphore::new(CAPACITY as usize)),
        most: AtomicU32::new(0),
        refused: AtomicU32::new(0),
    });
    let settings = QuicSettings { idle_timeout: Duration::from_secs(60), ..EDGE_SETTINGS };
    let at_node = gate.clone();
    let (node, connection) = Process::node(settings, |connection| {
        endpoint::resize(&connection, CAPACITY);
        serve(connection, at_node)
    })
    .await;
    endpoint::resize(&connection, CAPACITY);
    let slots = Arc::new(Semaphore::new(CAPACITY as usize));
    let returned: Arc<Vec<AtomicU32>> = Arc::new((0..RUNS).map(|_| AtomicU32::new(0)).collect());
    let tally = Arc::new(Tally::default());
    let clients: Vec<_> = (0..CLIENTS)
        .map(|first| {
            tokio::spawn(client(connection.clone(), first, slots.clone(), returned.clone(), tally.clone()))
        })
        .collect();
    for client in clients {
        client.await.expect("no client fails");
    }
    // The last cancelled runs may still be on their way.
    let _all = within(slots.acquire_many(CAPACITY)).await.expect("every lease returns");
    assert_eq!(connection.close_reason(), None, "no cancel was left unanswered");
    assert!(returned.iter().all(|count| count.load(Ordering::Relaxed) == 1), "every lease returns once");
    assert_eq!(gate.slots.available_permits(), CAPACITY as usize, "the gate is empty");
    assert_eq!(
        gate.refused.load(Ordering::Relaxed),
        0,
        "an edge's lease never returns before the node's slot"
    );
    let most = gate.most.load(Ordering::Relaxed);
    println!("{tally:?}, at most {most} at once");
    assert!((CAPACITY / 4..=CAPACITY).contains(&most), "the gate was in use, and never overfull: {most}");
    let seen = [&tally.complete, &tally.aborted, &tally.dropped, &tally.cancelled];
    let seen = seen.map(|counter| counter.load(Ordering::Relaxed));
    assert!(seen.iter().all(|&count| count > RUNS as usize / 50), "every end was tried: {seen:?}");
    assert_eq!(seen.iter().sum::<usize>(), RUNS as usize);
    connection.close(CloseCode::EdgeShutdown.wire(), b"");
    node.kill();
}
