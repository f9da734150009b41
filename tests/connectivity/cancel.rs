//! A client that closes its connection: the engine sees it, the slot is free, the next one runs.

use crate::clients::{assert_one_at_a_time, assert_ran_at_most_once, name_of, raw_client};
use crate::lab::{DEADLINE, IOP, SLOWNESS, alone, figure, usual, wait_at_rest, wait_queue};
use iop_tests::deployment::Deployment;
use iop_tests::engine::{Engine, Script, Then};
use iop_tests::http::RawConnection;
use std::time::{Duration, Instant};

/// Rounds of each way to leave. The median is judged: single rounds meet the machine's other business.
const ROUNDS: usize = 30;

/// Median time from the client's close to the engine's end of its connection. There is no timer in it, nor in the next:
/// two hops of computation.
const SEEN: Duration = Duration::from_millis(2).saturating_mul(SLOWNESS);

/// Median time from there to the next waiter's request at the engine.
const NEXT: Duration = Duration::from_millis(1).saturating_mul(SLOWNESS);

#[derive(Debug, Clone, Copy)]
enum Moment {
    BeforeFirstByte,
    MidStream,
}

/// One client leaves after another; each leaves the slot to the one that waits, and one more leaves the queue.
async fn leave(what: &str, stream: bool, moment: Moment) {
    let _machine = alone().await;
    let engine = Engine::start();
    match moment {
        Moment::BeforeFirstByte => engine.hold(),
        Moment::MidStream => {
            let pieces = if stream { 2 } else { 1 };
            engine.set_script(Script::stream(5, Duration::ZERO).cut(pieces, Then::Hold));
        }
    }
    let deployment = Deployment::start(IOP, usual(&engine, 1)).await;
    let client = async |name: String| raw_client(deployment.http, &name, stream).await;
    let (mut seen, mut next) = (Vec::new(), Vec::new());
    let mut gone = Vec::new();
    let mut running = client("run 0".into()).await;
    for round in 0..ROUNDS {
        settle(&engine, &mut running, round, moment).await;
        let quitter = client(format!("quit {round}")).await;
        wait_queue(&deployment, 1).await;
        let waiter = client(format!("run {}", round + 1)).await;
        wait_queue(&deployment, 2).await;
        quit(quitter, round);
        wait_queue(&deployment, 1).await;
        gone.push(format!("quit {round}"));

        let left = Instant::now();
        quit(running, round);
        let closed = engine.wait_closed(round, DEADLINE).await;
        assert!(closed.broken_off());
        seen.push(closed.closed.expect("it is closed").saturating_duration_since(left));
        engine.wait_until("the next request", DEADLINE, |log| log.requests.len() > round + 1).await;
        let following = engine.request(round + 1);
        next.push(following.arrived.saturating_duration_since(closed.closed.expect("it is closed")));
        running = waiter;
    }
    settle(&engine, &mut running, ROUNDS, moment).await;
    drop(running);
    engine.wait_closed(ROUNDS, DEADLINE).await;
    for number in 0..=ROUNDS {
        assert_eq!(name_of(&engine.request(number)), format!("run {number}"), "in order of arrival");
    }
    let seen = figure(&format!("client leaves {what}: until the engine's connection is closed"), seen);
    let next =
        figure(&format!("client leaves {what}: from there until the next request is at the engine"), next);
    assert_ran_at_most_once(&engine, &gone);
    assert_one_at_a_time(&engine);
    wait_at_rest(&deployment).await;
    deployment.shut_down().await;
    assert!(seen <= SEEN, "{seen:?}");
    assert!(next <= NEXT, "{next:?}");
}

/// Waits until the running request is where it is to be left.
async fn settle(engine: &Engine, running: &mut RawConnection, round: usize, moment: Moment) {
    match moment {
        Moment::BeforeFirstByte => engine.wait_held(1, DEADLINE).await,
        Moment::MidStream => {
            running.read_through("\"choices\"").await.expect("the answer begins");
        }
    }
    assert_eq!(engine.in_progress(), 1, "round {round}");
}

/// Closes the connection, every other time with a reset.
fn quit(connection: RawConnection, round: usize) {
    if round.is_multiple_of(2) {
        drop(connection);
    } else {
        connection.reset().expect("the connection stands");
    }
}

// [lease-lifecycle]
#[tokio::test]
async fn a_client_that_leaves_before_the_first_byte_frees_its_slot_at_once() {
    leave("before the first byte of a stream", true, Moment::BeforeFirstByte).await;
}

// [lease-lifecycle]
#[tokio::test]
async fn a_client_that_leaves_in_mid_stream_frees_its_slot_at_once() {
    leave("in mid-stream", true, Moment::MidStream).await;
}

// [lease-lifecycle]
#[tokio::test]
async fn a_client_that_leaves_while_it_waits_for_a_plain_answer_frees_its_slot_at_once() {
    leave("before a plain answer", false, Moment::BeforeFirstByte).await;
}

// [lease-lifecycle]
#[tokio::test]
async fn a_client_that_leaves_in_the_middle_of_a_plain_answer_frees_its_slot_at_once() {
    leave("in the middle of a plain answer", false, Moment::MidStream).await;
}
