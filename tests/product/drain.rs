//! Stopping while something runs: the edge lets it end within its bound, the node ends it, a second signal ends everything.

use crate::lab::{DEADLINE, EXIT_LIMIT, deploy, plan, wait_for_log, wait_for_no_lease};
use crate::stop::assert_stops;
use iop_tests::deadline::wait_until_async;
use iop_tests::deployment::Deployment;
use iop_tests::engine::{Engine, Script, chunk_text};
use iop_tests::http::{Call, Streaming, open};
use iop_tests::process::Signal;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// What the edge gives running requests at its end.
const DRAIN_BOUND: Duration = Duration::from_secs(10);

/// A deployment with one streaming request, of which the client has the first chunk and the engine holds the second.
async fn running(engine: &Engine) -> (Deployment, Streaming) {
    engine.set_script(Script::stream(3, Duration::ZERO).stepped());
    let iop = deploy(plan(engine, 1)).await;
    let mut stream = open(iop.http, Call::chat("ornith:35b", true)).await.expect("the stream begins");
    let first = stream.next().await.expect("it flows").expect("a chunk");
    assert!(String::from_utf8_lossy(&first.bytes).contains(&chunk_text(0, 1)), "{first:?}");
    engine.wait_held(1, DEADLINE).await;
    (iop, stream)
}

/// Whether the edge takes no further connection.
async fn wait_for_closed_door(iop: &Deployment) {
    wait_until_async("new connections to be refused", DEADLINE, async || {
        TcpStream::connect(iop.http).await.err().map(|_| ()).ok_or("one was accepted")
    })
    .await;
}

#[tokio::test]
async fn a_stopping_edge_takes_nothing_new_and_lets_a_running_answer_end() {
    for signal in [Signal::INT, Signal::TERM] {
        let engine = Engine::start();
        let (mut iop, mut stream) = running(&engine).await;
        iop.edge.signal(signal);
        wait_for_closed_door(&iop).await;
        let ended = Instant::now();
        // The two chunks that are left, the reason of the end, [DONE].
        engine.set_script(Script::answer());
        for _ in 0..4 {
            engine.wait_held(1, DEADLINE).await;
            engine.release_one();
        }
        let (events, end) = stream.events().await;
        end.expect("a clean end");
        let text: String = events.iter().map(|(event, _)| event.text()).collect();
        assert_eq!(text, chunk_text(1, 1) + &chunk_text(2, 1));
        assert_eq!(events.last().expect("events").0.data, "[DONE]");
        assert_eq!(iop.edge.wait_for_exit(DEADLINE).await.code(), Some(0));
        assert!(ended.elapsed() < EXIT_LIMIT, "{:?}", ended.elapsed());
        wait_for_log(iop.node("gpu-a"), &["the edge at", "is shutting down"], DEADLINE).await;
    }
}

#[tokio::test]
async fn a_second_signal_ends_an_edge_at_once_though_a_request_runs() {
    let engine = Engine::start();
    let (mut iop, stream) = running(&engine).await;
    iop.edge.signal(Signal::INT);
    wait_for_log(&iop.edge, &["stopping; a second signal stops at once"], DEADLINE).await;
    wait_for_closed_door(&iop).await;
    let begun = Instant::now();
    iop.edge.signal(Signal::INT);
    assert_eq!(iop.edge.wait_for_exit(DEADLINE).await.code(), Some(130));
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    drop(stream);
}

#[tokio::test]
async fn an_answer_that_does_not_end_is_cut_at_the_edges_bound_and_the_client_is_told() {
    let engine = Engine::start();
    let (mut iop, mut stream) = running(&engine).await;
    let begun = Instant::now();
    iop.edge.signal(Signal::TERM);
    let (events, end) = stream.events().await;
    let told = begun.elapsed();
    assert!(told >= DRAIN_BOUND - Duration::from_millis(100), "{told:?}: the request has its time");
    assert_eq!(iop.edge.wait_for_exit(DEADLINE).await.code(), Some(0));
    assert!(begun.elapsed() < DRAIN_BOUND + EXIT_LIMIT, "{:?}", begun.elapsed());
    wait_for_log(&iop.edge, &["still running at shutdown", "requests=1", "timeout_ms=10000"], DEADLINE).await;
    assert!(events.iter().all(|(event, _)| event.data != "[DONE]"), "{events:?}");
    let error = events.last().map(|(event, _)| event.json()["error"]["code"].take());
    assert_eq!(error, Some("provider_disconnected".into()), "{events:?} {end:?}");
    assert!(engine.wait_closed(0, DEADLINE).await.broken_off(), "the provider's slot is free");
}

/// [lease-lifecycle]
#[tokio::test]
async fn a_stopping_node_ends_its_runs_at_once_and_the_client_is_told() {
    for signal in [Signal::INT, Signal::TERM] {
        let engine = Engine::start();
        let (mut iop, mut stream) = running(&engine).await;
        assert_stops(iop.node("gpu-a"), signal).await;
        let (events, end) = stream.events().await;
        end.expect("an event stream ends with an error event, not in the middle");
        let [(error, _)] = events.as_slice() else { panic!("one event: {events:?}") };
        assert_eq!(error.json()["error"]["code"], "provider_disconnected", "{error:?}");
        assert!(engine.wait_closed(0, DEADLINE).await.broken_off(), "the provider's slot is free");
        wait_for_no_lease(&iop).await;
        let leases = iop.snapshot().await["leases"].take();
        assert_eq!((&leases["acquired_total"], &leases["fenced_total"]), (&1.into(), &1.into()), "{leases}");
        assert_stops(&mut iop.edge, signal).await;
    }
}
