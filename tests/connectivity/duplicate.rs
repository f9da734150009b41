//! Two live processes with one identity: the first keeps everything, the second is told why and keeps trying.

use crate::clients::{Client, begun, call};
use crate::events::Events;
use crate::lab::{
    DEADLINE, INTERVAL, IOP, NODE, among_others, figure, keep_ports, node_of, start_edge_again, stop_edge,
    usual, wait_at_rest, wait_said,
};
use iop_tests::deadline::wait_until;
use iop_tests::deployment::Deployment;
use iop_tests::engine::{Engine, Script};
use iop_tests::http::EventParser;
use iop_tests::process::Signal;
use std::time::{Duration, Instant};

/// Refusals of the second process that are waited for.
const REFUSALS: usize = 3;

fn refusals(deployment: &Deployment) -> usize {
    deployment.edge.stderr().iter().filter(|line| line.contains("refused a registration")).count()
}

// [disconnect-exclusion]
#[tokio::test]
async fn a_second_process_of_a_live_identity_is_refused_at_its_pace_and_the_first_never_notices() {
    let _machine = among_others().await;
    let engine = Engine::start();
    // Longer than three refusals take; its end is checked to come after them.
    let script = Script::stream(400, Duration::from_millis(15));
    engine.set_script(script.clone());
    let mut deployment = Deployment::start(IOP, usual(&engine, 1)).await;
    let events = Events::subscribe(deployment.admin).await;
    let (mut stream, mut read) = begun(deployment.http, call("first", true), "{").await;

    let mut second = deployment.launch_node(NODE);
    let mut times = Vec::new();
    for count in 1..=REFUSALS {
        let at = wait_until(&format!("refusal {count}"), DEADLINE, || match refusals(&deployment) {
            seen if seen >= count => Ok(Instant::now()),
            seen => Err(seen),
        })
        .await;
        times.push(at);
        let snapshot = deployment.snapshot().await;
        let node = node_of(&snapshot, NODE);
        assert_eq!((&node["connected"], &node["generation"]), (&true.into(), &1.into()), "{node}");
    }
    let paces = times.windows(2).map(|pair| pair[1] - pair[0]);
    let pace = figure("second process of one identity: between two refusals, interval 1 s", paces.clone());
    assert!(paces.min().is_some_and(|least| least >= INTERVAL * 9 / 10), "{pace:?}");

    let (pieces, end) = stream.rest().await;
    end.expect("a clean end");
    let ended = pieces.last().expect("it went on").at;
    assert!(ended > times[REFUSALS - 1], "the stream ran all the while");
    pieces.iter().for_each(|piece| read.extend_from_slice(&piece.bytes));
    let parsed = EventParser::default().push(&read);
    assert_eq!(
        parsed.iter().map(|event| event.text()).collect::<String>(),
        script.text(),
        "every chunk once"
    );
    assert_eq!(parsed.last().map(|event| event.data.as_str()), Some("[DONE]"));
    assert_eq!((events.times("node_disconnected").len(), events.times("node_connected").len()), (0, 0));
    // Once, not at each refusal.
    wait_said(&second, "another running process", 1).await;

    // It takes over when the first one goes, without being started again.
    assert_eq!(deployment.stop_node(NODE, Signal::TERM).await, Some(0));
    assert_eq!(crate::lab::welcomed(&mut second).await, 2);
    wait_at_rest(&deployment).await;
}

// [disconnect-exclusion]
#[tokio::test]
async fn a_second_process_that_leaves_while_the_silent_first_is_asked_takes_nothing_from_it() {
    let _machine = among_others().await;
    let engine = Engine::start();
    engine.hold();
    let mut deployment = Deployment::start_edge(IOP, usual(&engine, 1)).await;
    keep_ports(&mut deployment);
    stop_edge(&mut deployment, Signal::TERM).await;
    start_edge_again(&mut deployment).await;
    deployment.start_node(NODE).await;
    let events = Events::subscribe(deployment.admin).await;
    let running = Client::send(deployment.http, call("first", true));
    engine.wait_held(1, DEADLINE).await;

    // Silent for longer than the edge waits for its answer, and shorter than the idle timeout.
    deployment.node(NODE).signal(Signal::STOP);
    let mut second = deployment.launch_node(NODE);
    wait_said(&deployment.edge, "asking the owner", 1).await;
    second.signal(Signal::TERM);
    assert_eq!(second.wait_for_exit(DEADLINE).await.code(), Some(0));
    wait_said(&deployment.edge, "it left while the owner of its identity was asked", 1).await;
    deployment.node(NODE).signal(Signal::CONT);

    engine.release_all();
    assert_eq!(running.answer().await.0.status, 200);
    let snapshot = deployment.snapshot().await;
    let node = node_of(&snapshot, NODE);
    assert_eq!((&node["connected"], &node["generation"]), (&true.into(), &1.into()), "{node}");
    assert_eq!((events.times("node_disconnected").len(), events.times("node_connected").len()), (0, 0));
    wait_at_rest(&deployment).await;
    deployment.shut_down().await;
}
