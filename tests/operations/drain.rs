//! A node that an operator drains: what runs there ends well, nothing new goes there.

use crate::lab::{Lab, MODELS, NODE, PROVIDER, chat, code, plan, provider};
use iop_tests::engine::Engine;
use iop_tests::http::{Answer, Call, send};
use iop_tests::process::Signal;

async fn drain(lab: &Lab, query: &str) -> Answer {
    let call = Call::new("POST".parse().expect("a method"), &format!("/admin/v1/drain{query}"));
    send(lab.admin, call).await.expect("the admin listener answers")
}

#[tokio::test]
async fn a_drained_node_ends_what_it_runs_and_gets_nothing_new_until_it_connects_again() {
    let engine = Engine::start();
    let mut lab = Lab::start(plan(&engine, 1)).await;
    engine.hold();
    let running = lab.occupy(&engine, chat(MODELS[0], "runs")).await;
    let waiting = lab.enqueue(chat(MODELS[1], "waits")).await;

    let answer = drain(&lab, "?node=gpu-a").await;
    assert_eq!((answer.status.as_u16(), answer.json()["draining"].as_str()), (202, Some(NODE)));
    let refused = waiting.answer().await;
    assert_eq!((refused.status.as_u16(), &*code(&refused)), (503, "provider_unavailable"));
    let snapshot = lab.snapshot().await;
    let drained = provider(&snapshot, NODE, PROVIDER);
    assert_eq!((&drained["health"], &drained["reason"]), (&"refused".into(), &"the node is drained".into()));
    assert_eq!(drained["in_flight"], 1, "what runs keeps its lease");

    // New settings do not bring it back.
    lab.reconfigure(|config| config["nodes"][0]["providers"][0]["capacity"] = 3.into()).await;
    let refused = lab.send(chat(MODELS[0], "late")).answer().await;
    assert_eq!((refused.status.as_u16(), &*code(&refused)), (503, "provider_unavailable"));

    engine.release_all();
    assert_eq!(running.answer().await.status, 200);
    lab.wait_for_rest().await;
    lab.stop_node(NODE, Signal::TERM).await;
    lab.start_node(NODE).await;
    assert_eq!(lab.send(chat(MODELS[0], "back")).answer().await.status, 200);
    lab.wait_for_rest().await;
}

#[tokio::test]
async fn only_a_connected_node_of_the_configuration_can_be_drained() {
    let engine = Engine::start();
    let mut lab = Lab::start(plan(&engine, 1)).await;
    for (query, status) in [("", 400), ("?gpu-a", 400), ("?node=gpu-z", 404)] {
        assert_eq!(drain(&lab, query).await.status, status, "{query}");
    }
    assert_eq!(lab.send(chat(MODELS[0], "still served")).answer().await.status, 200);
    lab.stop_node(NODE, Signal::TERM).await;
    lab.wait_for("the node gone", |snapshot| snapshot["nodes"][0]["connected"] == false).await;
    assert_eq!(drain(&lab, "?node=gpu-a").await.status, 409);
}
