//! The snapshot of operations, against what is really going on.

use crate::lab::{DEADLINE, Lab, MODELS, NODE, PROVIDER, chat, plan, provider};
use iop_tests::deployment::Plan;
use iop_tests::engine::Engine;
use iop_tests::http::Call;
use iop_tests::process::Signal;
use serde_json::{Value, json};

// [snapshot-source]
#[tokio::test]
async fn queued_counts_the_requests_that_could_run_on_a_provider_so_the_sum_is_more_than_the_queue() {
    let engines = [Engine::start(), Engine::start()];
    let plan = Plan::new()
        .provider(NODE, "one", &engines[0].endpoint(), 1)
        .provider(NODE, "two", &engines[1].endpoint(), 1)
        .edge_value("/nodes/0/providers/0/long_context_capacity", json!(1))
        .model("on-both", &[(NODE, "one"), (NODE, "two")], "upstream")
        .model("on-two", &[(NODE, "two")], "upstream");
    let lab = Lab::start(plan).await;
    engines.iter().for_each(Engine::hold);
    let mut sent = vec![lab.send(chat("on-both", "0")), lab.send(chat("on-both", "1"))];
    engines[0].wait_held(1, DEADLINE).await;
    engines[1].wait_held(1, DEADLINE).await;
    let long = |text: &str| chat("on-both", text).header("x-iop-context", "long");
    for call in [chat("on-both", "2"), chat("on-both", "3"), long("4"), chat("on-two", "5")] {
        sent.push(lab.enqueue(call).await);
    }
    let snapshot = lab.snapshot().await;
    assert_eq!(snapshot["queue"]["length"], 4);
    let pressure = |id: &str| {
        let view = provider(&snapshot, NODE, id);
        (view["queued"].as_u64().expect("a count"), view["long_queued"].as_u64().expect("a count"))
    };
    // The long one fits on `one` alone.
    assert_eq!((pressure("one"), pressure("two")), ((3, 1), (3, 0)));
    engines.iter().for_each(Engine::release_all);
    for sent in sent {
        assert_eq!(sent.answer().await.status, 200);
    }
    lab.wait_for_rest().await;
}

// [offline-snapshot] [disconnect-queue-resolution] [reconnect-candidate-recovery]
#[tokio::test]
async fn a_node_that_is_not_connected_stays_in_the_snapshot_and_its_models_stay_listed() {
    let engine = Engine::start();
    let mut lab = Lab::start(plan(&engine, 2)).await;
    let online = lab.snapshot().await;
    assert_eq!(online["nodes"][0]["connected"], true);
    assert_eq!(
        (&online["nodes"][0]["status"], &online["nodes"][0]["health"]),
        (&json!("available"), &json!("online"))
    );
    let generation = online["nodes"][0]["generation"].as_u64().expect("a generation");
    engine.hold();
    let lost = lab.occupy(&engine, chat(MODELS[0], "lost")).await;
    lab.stop_node(NODE, Signal::TERM).await;
    assert!(lost.answer().await.status.is_server_error());

    let offline =
        lab.wait_for("the node offline", |snapshot| snapshot["nodes"][0]["connected"] == false).await;
    let node = &offline["nodes"][0];
    assert_eq!(
        (&node["id"], &node["status"], &node["health"]),
        (&json!(NODE), &json!("unavailable"), &json!("offline"))
    );
    for field in ["generation", "address", "since", "rtt_ms", "software"] {
        assert_eq!(node[field], Value::Null, "{field}");
    }
    let view = provider(&offline, NODE, PROVIDER);
    assert_eq!((&view["status"], &view["health"]), (&json!("unavailable"), &json!("offline")));
    for counter in ["effective_capacity", "in_flight", "long_in_flight", "queued", "long_queued"] {
        assert_eq!(view[counter], 0, "{counter}");
    }
    assert_eq!((&view["capacity"], &view["enabled"]), (&json!(2), &json!(true)), "as configured");
    assert_eq!(offline["models"][0]["available"], false);
    let models = lab.send(Call::get("/v1/models")).answer().await.json();
    let ids: Vec<&Value> =
        models["data"].as_array().expect("a list").iter().map(|model| &model["id"]).collect();
    assert_eq!(ids, MODELS.map(|model| json!(model)).iter().collect::<Vec<_>>());

    engine.release_all();
    assert!(lab.start_node(NODE).await > generation);
    let back = lab.wait_for("the same node back", |snapshot| {
        provider(snapshot, NODE, PROVIDER)["effective_capacity"] == 2
    });
    let back = back.await;
    assert_eq!((&back["nodes"][0]["id"], &back["models"][0]["available"]), (&json!(NODE), &json!(true)));
    assert_eq!(lab.send(chat(MODELS[0], "served again")).answer().await.status, 200);
}

#[tokio::test]
async fn a_provider_that_its_node_refuses_says_so_in_the_nodes_own_words() {
    let engine = Engine::start();
    let endpoint = engine.endpoint();
    let plan = plan(&engine, 1)
        .edge_value("/nodes/0/providers/0/endpoint", json!("http://127.0.0.1:9"))
        .node_value(NODE, "/allow_endpoints", json!([endpoint]));
    let mut lab = Lab::start(plan).await;
    let snapshot = lab.snapshot().await;
    assert_eq!(snapshot["nodes"][0]["status"], "available", "the node itself is well");
    let view = provider(&snapshot, NODE, PROVIDER);
    assert_eq!((&view["status"], &view["health"]), (&json!("unavailable"), &json!("refused")));
    let reason = view["reason"].as_str().expect("the node's words");
    assert!(reason.contains("http://127.0.0.1:9") && reason.contains("allow_endpoints"), "{reason}");
    assert_eq!(lab.send(chat(MODELS[0], "nobody")).answer().await.status, 503);

    lab.reconfigure(|edge| edge["nodes"][0]["providers"][0]["endpoint"] = json!(endpoint)).await;
    let snapshot = lab.wait_for("the provider accepted", |snapshot| {
        provider(snapshot, NODE, PROVIDER)["health"] == "online"
    });
    assert_eq!(provider(&snapshot.await, NODE, PROVIDER)["reason"], Value::Null);
    assert_eq!(lab.send(chat(MODELS[0], "served")).answer().await.status, 200);
}
