//! Changed settings take effect on what runs and what waits. How a changed file is noticed is tested in `file`.

use crate::lab::{DEADLINE, Lab, MODELS, NODE, PROVIDER, chat, code, plan, provider, texts};
use iop_tests::deployment::Plan;
use iop_tests::engine::Engine;
use serde_json::{Value, json};

/// The model on two providers with one slot each, at these nodes.
fn two_providers(engines: &[Engine; 2], nodes: [&str; 2]) -> Plan {
    Plan::new()
        .provider(nodes[0], "one", &engines[0].endpoint(), 1)
        .provider(nodes[1], "two", &engines[1].endpoint(), 1)
        .model(MODELS[0], &[(nodes[0], "one"), (nodes[1], "two")], "upstream")
}

fn engines() -> [Engine; 2] {
    [Engine::start(), Engine::start()]
}

// [refresh-consistency]
#[tokio::test]
async fn the_waiting_requests_of_a_removed_model_end_and_those_of_others_wait_on() {
    let engine = Engine::start();
    let mut lab = Lab::start(plan(&engine, 1)).await;
    engine.hold();
    let running = lab.occupy(&engine, chat(MODELS[0], "runs")).await;
    let removed = lab.enqueue(chat(MODELS[0], "removed")).await;
    let stays = lab.enqueue(chat(MODELS[1], "stays")).await;
    lab.reconfigure(|edge| drop(edge["models"].as_array_mut().expect("models").remove(0))).await;
    let refused = removed.answer().await;
    assert_eq!((refused.status.as_u16(), code(&refused).as_str()), (404, "model_not_found"));
    assert!(refused.text().contains(MODELS[0]), "{refused:?}");
    let refused = lab.send(chat(MODELS[0], "new")).answer().await;
    assert_eq!((refused.status.as_u16(), code(&refused).as_str()), (404, "model_not_found"));
    assert!(stays.is_pending() && running.is_pending());
    engine.release_all();
    assert_eq!(running.answer().await.status, 200);
    assert_eq!(stays.answer().await.status, 200);
    assert_eq!(texts(&engine), ["runs", "stays"]);
    lab.wait_for_rest().await;
}

// [refresh-consistency] [cross-group-wakeup]
#[tokio::test]
async fn raised_capacity_is_used_by_those_that_wait_without_anything_else_happening() {
    let engine = Engine::start();
    let mut lab = Lab::start(plan(&engine, 1)).await;
    engine.hold();
    let mut sent = vec![lab.occupy(&engine, chat(MODELS[0], "0")).await];
    for number in 1..4 {
        sent.push(lab.enqueue(chat(MODELS[number % 2], &number.to_string())).await);
    }
    lab.reconfigure(|edge| edge["nodes"][0]["providers"][0]["capacity"] = json!(3)).await;
    engine.wait_held(3, DEADLINE).await;
    let snapshot = lab.snapshot().await;
    let view = provider(&snapshot, NODE, PROVIDER);
    assert_eq!((&view["effective_capacity"], &view["in_flight"]), (&json!(3), &json!(3)));
    assert_eq!(snapshot["queue"]["length"], 1);
    engine.release_all();
    for sent in sent {
        assert_eq!(sent.answer().await.status, 200, "nothing was refused by the node's own gate");
    }
    let mut texts = texts(&engine);
    texts.sort();
    assert_eq!(texts, ["0", "1", "2", "3"]);
    assert_eq!(engine.peak(), 3);
}

// [refresh-consistency]
#[tokio::test]
async fn capacity_lowered_below_what_runs_stops_nothing_and_admits_nothing_until_use_is_below_it() {
    let engine = Engine::start();
    let mut lab = Lab::start(plan(&engine, 3)).await;
    engine.hold();
    let mut sent = Vec::new();
    for number in 0..3 {
        sent.push(lab.occupy(&engine, chat(MODELS[number % 2], &number.to_string())).await);
    }
    for number in 3..5 {
        sent.push(lab.enqueue(chat(MODELS[number % 2], &number.to_string())).await);
    }
    lab.reconfigure(|edge| edge["nodes"][0]["providers"][0]["capacity"] = json!(1)).await;
    let snapshot = lab.snapshot().await;
    let view = provider(&snapshot, NODE, PROVIDER);
    assert_eq!((&view["in_flight"], &view["effective_capacity"]), (&json!(3), &json!(1)));
    for left in [2_u64, 1] {
        engine.release_one();
        let snapshot = lab
            .wait_for("one lease fewer", |snapshot| provider(snapshot, NODE, PROVIDER)["in_flight"] == left)
            .await;
        assert_eq!(snapshot["queue"]["length"], 2, "{left} run on one slot, so nobody new");
    }
    assert_eq!(engine.in_progress(), 1);
    engine.release_one();
    engine.wait_received(4, DEADLINE).await;
    lab.wait_for_queue(1).await;
    engine.release_all();
    for sent in sent {
        assert_eq!(sent.answer().await.status, 200);
    }
    assert_eq!(texts(&engine)[3..], ["3", "4"]);
    engine.look(|log| {
        let late: Vec<_> = log.scripted().skip(3).collect();
        assert!(late[0].answered.expect("answered") <= late[1].arrived, "one at a time: {late:?}");
    });
    lab.wait_for_rest().await;
}

// [refresh-consistency]
#[tokio::test]
async fn a_disabled_provider_ends_its_own_waits_keeps_its_runs_and_works_again_when_enabled() {
    let engine = Engine::start();
    let mut lab = Lab::start(plan(&engine, 1)).await;
    engine.hold();
    let running = lab.occupy(&engine, chat(MODELS[0], "runs")).await;
    let waiting = lab.enqueue(chat(MODELS[1], "waits")).await;
    lab.reconfigure(|edge| edge["nodes"][0]["providers"][0]["enabled"] = json!(false)).await;
    let refused = waiting.answer().await;
    assert_eq!((refused.status.as_u16(), code(&refused).as_str()), (503, "provider_unavailable"));
    assert!(refused.text().contains("disabled"), "it says why: {refused:?}");
    let snapshot = lab.snapshot().await;
    let view = provider(&snapshot, NODE, PROVIDER);
    let (status, enabled) = (&view["status"], &view["enabled"]);
    assert_eq!((status, enabled, &view["in_flight"]), (&json!("disabled"), &json!(false), &json!(1)));
    assert_eq!(snapshot["models"][0]["available"], false);

    lab.reconfigure(|edge| edge["nodes"][0]["providers"][0]["enabled"] = json!(true)).await;
    let waiting = lab.enqueue(chat(MODELS[1], "after")).await;
    engine.release_all();
    assert_eq!(running.answer().await.status, 200);
    assert_eq!(waiting.answer().await.status, 200);
    assert_eq!(engine.peak(), 1);
    lab.wait_for_rest().await;
}

// [refresh-consistency] [cross-group-wakeup]
#[tokio::test]
async fn those_that_wait_for_a_disabled_provider_wait_on_for_another() {
    let engines = engines();
    let mut lab = Lab::start(two_providers(&engines, [NODE, NODE])).await;
    engines.iter().for_each(Engine::hold);
    let mut sent = vec![lab.send(chat(MODELS[0], "0")), lab.send(chat(MODELS[0], "1"))];
    engines[0].wait_held(1, DEADLINE).await;
    engines[1].wait_held(1, DEADLINE).await;
    sent.push(lab.enqueue(chat(MODELS[0], "2")).await);
    lab.reconfigure(|edge| edge["nodes"][0]["providers"][0]["enabled"] = json!(false)).await;
    engines[0].release_all();
    lab.wait_for("the disabled one at rest", |snapshot| provider(snapshot, NODE, "one")["in_flight"] == 0)
        .await;
    lab.wait_for_queue(1).await;
    engines[1].release_all();
    for sent in sent {
        assert_eq!(sent.answer().await.status, 200);
    }
    assert_eq!(texts(&engines[0]).len(), 1);
    assert_eq!(texts(&engines[1])[1], "2");
}

// [refresh-consistency]
#[tokio::test]
async fn a_changed_priority_decides_where_the_next_request_runs() {
    let engines = engines();
    let mut lab = Lab::start(two_providers(&engines, [NODE, NODE])).await;
    for (favourite, round) in [(1, 0), (0, 1), (1, 2)] {
        lab.reconfigure(|edge| {
            edge["nodes"][0]["providers"][favourite]["priority"] = json!(10);
            edge["nodes"][0]["providers"][1 - favourite]["priority"] = json!(-10);
        })
        .await;
        for number in 0..3 {
            let text = format!("{round}-{number}");
            assert_eq!(lab.send(chat(MODELS[0], &text)).answer().await.status, 200);
            assert!(texts(&engines[favourite]).contains(&text), "{text} belongs to provider {favourite}");
        }
    }
}

// [refresh-consistency] [cross-group-wakeup]
#[tokio::test]
async fn a_provider_that_is_added_to_a_connected_node_is_used_at_once_by_those_that_wait() {
    let (engine, added) = (Engine::start(), Engine::start());
    let mut lab = Lab::start(plan(&engine, 1)).await;
    engine.hold();
    let running = lab.occupy(&engine, chat(MODELS[0], "runs")).await;
    let waiting = lab.enqueue(chat(MODELS[0], "waits")).await;
    let report = lab
        .reconfigure(|edge| {
            let provider =
                json!({"id": "added", "adapter": "openai", "endpoint": added.endpoint(), "capacity": 1});
            edge["nodes"][0]["providers"].as_array_mut().expect("providers").push(provider);
            let candidate = json!({"node": NODE, "provider": "added"});
            edge["models"][0]["candidates"].as_array_mut().expect("candidates").push(candidate);
        })
        .await;
    assert_eq!(report["waiting_for_nodes"], json!([]), "the node is connected: {report:#}");
    assert_eq!(waiting.answer().await.status, 200);
    assert_eq!(texts(&added), ["waits"]);
    assert_eq!(added.request(0).json()["model"], MODELS[0], "no other name upstream was given");
    engine.release_all();
    assert_eq!(running.answer().await.status, 200);
    lab.wait_for_rest().await;
}

// [refresh-consistency]
#[tokio::test]
async fn a_removed_node_ends_what_it_runs_gets_nothing_new_and_is_used_again_when_it_is_back() {
    let engines = engines();
    let mut lab = Lab::start(two_providers(&engines, [NODE, "gpu-b"])).await;
    engines.iter().for_each(Engine::hold);
    let sent = [lab.send(chat(MODELS[0], "0")), lab.send(chat(MODELS[0], "1"))];
    engines[0].wait_held(1, DEADLINE).await;
    engines[1].wait_held(1, DEADLINE).await;
    let mut before = Value::Null;
    lab.reconfigure(|edge| {
        before = edge.clone();
        edge["nodes"].as_array_mut().expect("nodes").remove(1);
        edge["models"][0]["candidates"].as_array_mut().expect("candidates").remove(1);
    })
    .await;
    let snapshot = lab.snapshot().await;
    assert_eq!(snapshot["nodes"].as_array().map(Vec::len), Some(1), "{snapshot:#}");
    assert_eq!(snapshot["leases"]["active"], 2, "what runs keeps its lease");
    let waiting = lab.enqueue(chat(MODELS[0], "2")).await;
    engines[1].release_all();
    lab.wait_for("the removed node's lease returned", |snapshot| snapshot["leases"]["active"] == 1).await;
    lab.wait_for_queue(1).await;

    lab.reconfigure(|edge| *edge = before).await;
    assert_eq!(waiting.answer().await.status, 200);
    assert_eq!(texts(&engines[1]).len(), 2, "the node is back in use");
    engines[0].release_all();
    for sent in sent {
        assert_eq!(sent.answer().await.status, 200);
    }
    let rest = lab.wait_for_rest().await;
    assert_eq!(rest["leases"]["fenced_total"], 0);
}
