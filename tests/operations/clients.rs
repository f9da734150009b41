//! Clients that go away before they have their answer.

use crate::lab::{DEADLINE, Lab, MODELS, chat, plan, texts};
use iop_tests::engine::Engine;

// [lease-lifecycle]
#[tokio::test]
async fn a_client_that_goes_away_while_it_waits_leaves_the_queue_at_once_and_is_never_sent() {
    let engine = Engine::start();
    let lab = Lab::start(plan(&engine, 1)).await;
    engine.hold();
    let running = lab.occupy(&engine, chat(MODELS[0], "runs")).await;
    let gone = lab.enqueue(chat(MODELS[1], "gone")).await;
    let stays = lab.enqueue(chat(MODELS[0], "stays")).await;
    gone.give_up();
    lab.wait_for_queue(1).await;
    engine.release_all();
    assert_eq!(running.answer().await.status, 200);
    assert_eq!(stays.answer().await.status, 200);
    assert_eq!(texts(&engine), ["runs", "stays"]);
    assert_eq!(lab.wait_for_rest().await["leases"]["acquired_total"], 2);
}

// [lease-lifecycle] [cross-group-wakeup]
#[tokio::test]
async fn a_client_that_goes_away_while_it_runs_has_its_upstream_request_closed_and_the_next_one_runs() {
    let engine = Engine::start();
    let lab = Lab::start(plan(&engine, 1)).await;
    engine.hold();
    let gone = lab.occupy(&engine, chat(MODELS[0], "gone")).await;
    let waiting = lab.enqueue(chat(MODELS[1], "waits")).await;
    gone.give_up();
    let closed = engine.wait_closed(0, DEADLINE).await;
    assert!(closed.broken_off(), "{closed:?}");
    engine.wait_received(2, DEADLINE).await;
    engine.wait_held(1, DEADLINE).await;
    let next = engine.request(1);
    assert!(next.arrived >= closed.closed.expect("closed"), "the slot was free before the next one ran");
    engine.release_all();
    assert_eq!(waiting.answer().await.status, 200);
    assert_eq!((texts(&engine).last().map(String::as_str), engine.peak()), (Some("waits"), 1));
    lab.wait_for_rest().await;
}

// [lease-lifecycle]
#[tokio::test]
async fn requests_one_after_the_other_share_one_connection_to_the_server() {
    let engine = Engine::start();
    let lab = Lab::start(plan(&engine, 1)).await;
    for number in 0..20 {
        let answer = lab.send(chat(MODELS[0], &number.to_string())).answer().await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("content-length")),
            (200, &*answer.body.len().to_string())
        );
    }
    assert_eq!(engine.look(|log| log.connections_opened), 1);
    lab.wait_for_rest().await;
}
