//! Ctrl-C and SIGTERM with nothing running: exit code 0 in under two seconds, and the other side knows at once and why.

use crate::lab::{DEADLINE, EXIT_LIMIT, IOP, deploy, plan, wait_for_log};
use iop_tests::deadline::wait_until_async;
use iop_tests::deployment::Deployment;
use iop_tests::engine::Engine;
use iop_tests::http::{Call, Connection, RawConnection};
use iop_tests::process::{Process, Signal};
use std::time::{Duration, Instant};

/// The other side's knowledge travels with the close: this is far below every timeout, and far above loopback.
const AT_ONCE: Duration = Duration::from_millis(200);

/// As above, for a line of a log, which goes through a pipe and a thread of this program.
const LOGGED_AT_ONCE: Duration = Duration::from_millis(500);

/// Sends the signal, waits for the end, and passes when it was one with exit code 0 in under two seconds.
pub(crate) async fn assert_stops(process: &mut Process, signal: Signal) {
    let begun = Instant::now();
    process.signal(signal);
    let status = process.wait_for_exit(DEADLINE).await;
    let elapsed = begun.elapsed();
    assert_eq!(status.code(), Some(0), "{signal:?}: {:#?}", process.stderr());
    assert!(elapsed < EXIT_LIMIT, "{signal:?} took {elapsed:?}: {:#?}", process.stderr());
}

/// [disconnect-exclusion]
#[tokio::test]
async fn a_stopped_node_is_offline_at_the_edge_at_once() {
    for signal in [Signal::INT, Signal::TERM] {
        let engine = Engine::start();
        let mut iop = deploy(plan(&engine, 1)).await;
        assert_eq!(iop.snapshot().await["nodes"][0]["connected"], true);
        assert_stops(iop.node("gpu-a"), signal).await;
        let gone = Instant::now();
        wait_until_async("the node to be offline in the snapshot", AT_ONCE, async || {
            let node = iop.snapshot().await["nodes"][0].take();
            let offline = node["connected"] == false && node["health"] == "offline";
            if offline { Ok(()) } else { Err(node) }
        })
        .await;
        println!("{signal:?}: offline in the snapshot {:?} after the node's exit", gone.elapsed());
        let words = ["node disconnected", "the node is shutting down", "(code 267)", "generation=1"];
        wait_for_log(&iop.edge, &words, LOGGED_AT_ONCE).await;
        assert_stops(&mut iop.edge, signal).await;
    }
}

// [node-connectivity-supervision]
#[tokio::test]
async fn a_stopped_edge_tells_its_nodes_and_they_say_so_and_dial_again() {
    for signal in [Signal::INT, Signal::TERM] {
        let engine = Engine::start();
        let mut iop = deploy(plan(&engine, 1)).await;
        assert_stops(&mut iop.edge, signal).await;
        let words = ["connection lost", "the edge at", "is shutting down"];
        wait_for_log(iop.node("gpu-a"), &words, LOGGED_AT_ONCE).await;
        // A pending wait or dial does not keep the node either.
        assert_stops(iop.node("gpu-a"), signal).await;
    }
}

#[tokio::test]
async fn an_edge_without_nodes_and_a_node_without_its_edge_stop_too() {
    let engine = Engine::start();
    let mut iop = Deployment::start_edge(IOP, plan(&engine, 1)).await;
    assert_stops(&mut iop.edge, Signal::INT).await;
    let mut node = iop.launch_node("gpu-a");
    // Nothing answers; the dial goes on for seconds.
    wait_for_log(&node, &["not connected"], DEADLINE).await;
    assert_stops(&mut node, Signal::INT).await;
    let stdout = node.stdout();
    assert_eq!(stdout, Vec::<String>::new(), "it was never ready");
}

/// Connections without a running request: kept alive, just opened, with half a head, and one of an operator.
#[tokio::test]
async fn connections_on_which_nothing_runs_do_not_hold_a_stopping_edge() {
    let engine = Engine::start();
    let mut iop = Deployment::start_edge(IOP, plan(&engine, 1)).await;
    let mut kept = Connection::open(iop.http).await.expect("the edge listens");
    assert_eq!(kept.send(Call::get("/v1/models")).await.expect("it answers").status, 200);
    let mut operator = Connection::open(iop.admin).await.expect("the edge listens");
    assert_eq!(operator.send(Call::get("/admin/v1/snapshot")).await.expect("it answers").status, 200);
    let _opened = RawConnection::open(iop.http).await.expect("the edge listens");
    let mut half = RawConnection::open(iop.http).await.expect("the edge listens");
    half.send("POST /v1/chat/completions HTTP/1.1\r\nho").await.expect("sent");
    assert_stops(&mut iop.edge, Signal::INT).await;
    drop((kept, operator, half));
}
