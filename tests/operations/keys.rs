//! Clients' keys: who may call, what one key may take, and that no key is ever shown.

use crate::lab::{Lab, MODELS, NODE, chat, code, plan, texts};
use iop_tests::engine::Engine;
use iop_tests::http::Call;
use serde_json::json;

const ALICE: &str = "alice-secret-5f2c";
const BOB: &str = "bob-secret-91ab";

async fn start(engine: &Engine) -> Lab {
    let keys = json!([
        {"name": "alice", "key": ALICE, "max_in_flight": 1, "max_queued": 1},
        {"name": "bob", "key": BOB},
    ]);
    Lab::start(plan(engine, 2).edge_value("/auth", json!({"keys": keys}))).await
}

fn with_key(key: &str, text: &str) -> Call {
    chat(MODELS[0], text).header("authorization", &format!("Bearer {key}"))
}

#[tokio::test]
async fn one_key_cannot_take_every_slot_and_its_waiting_requests_block_no_others() {
    let engine = Engine::start();
    let mut lab = start(&engine).await;
    engine.hold();
    let mut sent = vec![lab.occupy(&engine, with_key(ALICE, "alice-1")).await];
    sent.push(lab.enqueue(with_key(ALICE, "alice-2")).await);
    let refused = lab.send(with_key(ALICE, "alice-3")).answer().await;
    assert_eq!((refused.status.as_u16(), code(&refused).as_str()), (429, "queue_full"));
    assert!(refused.text().contains("max_queued"), "it says whose queue: {refused:?}");
    assert!(refused.header("retry-after-ms").parse::<u64>().expect("milliseconds") > 0);
    // A slot is free, and the request before this one may not take it.
    sent.push(lab.occupy(&engine, with_key(BOB, "bob-1")).await);
    sent.push(lab.enqueue(with_key(BOB, "bob-2")).await);
    assert_eq!(texts(&engine), ["alice-1", "bob-1"]);
    assert_eq!(lab.snapshot().await["queue"]["length"], 2);

    // A raised limit counts for what waits: the next free slot is for the earlier one.
    lab.reconfigure(|edge| edge["auth"]["keys"][0]["max_in_flight"] = json!(2)).await;
    engine.release_all();
    for sent in sent {
        assert_eq!(sent.answer().await.status, 200);
    }
    assert_eq!(texts(&engine)[2..], ["alice-2", "bob-2"]);
    lab.wait_for_rest().await;
}

#[tokio::test]
async fn a_wrong_key_or_none_gets_nothing_and_no_key_is_ever_shown() {
    let engine = Engine::start();
    let mut lab = start(&engine).await;
    for call in [chat(MODELS[0], "none"), with_key("wrong-secret-77", "wrong"), with_key("", "empty")] {
        let refused = lab.send(call).answer().await;
        assert_eq!((refused.status.as_u16(), code(&refused).as_str()), (401, "invalid_api_key"));
    }
    assert_eq!(lab.send(Call::get("/v1/models")).answer().await.status, 401);
    assert_eq!(lab.send(chat(MODELS[0], "x").header("x-api-key", BOB)).answer().await.status, 200);
    assert_eq!(lab.send(with_key(ALICE, "a")).answer().await.status, 200);
    engine.look(|log| {
        assert_eq!(log.scripted().count(), 2);
        for request in log.scripted() {
            assert_eq!((request.header("authorization"), request.header("x-api-key")), ("", ""));
        }
    });

    let changed = "changed-secret-03";
    let report = lab.reconfigure(|edge| edge["auth"]["keys"][1]["key"] = json!(changed)).await.to_string();
    assert!(report.contains("bob"), "the changed key is named by its holder: {report}");
    assert_eq!(lab.send(with_key(BOB, "old")).answer().await.status, 401);
    assert_eq!(lab.send(with_key(changed, "new")).answer().await.status, 200);
    lab.rewrite_edge_config(|edge| edge["auth"]["keys"][1]["key"] = json!("two words-secret"));
    let refused = lab.refresh("").await;
    assert_eq!(refused.status, 422);

    let snapshot = lab.snapshot().await.to_string();
    let edge = [lab.edge.stdout(), lab.edge.stderr()].concat().join("\n");
    let node = [lab.node(NODE).stdout(), lab.node(NODE).stderr()].concat().join("\n");
    assert!(edge.contains("refused") && node.contains("ready"), "there are logs to look at");
    for (place, text) in [
        ("snapshot", &snapshot),
        ("edge", &edge),
        ("node", &node),
        ("report", &report),
        ("issues", &refused.text()),
    ] {
        assert!(!text.contains("-secret"), "a key in {place}: {text}");
    }
}

// [refresh-consistency]
#[tokio::test]
async fn keys_that_are_gone_open_no_listener_that_others_reach() {
    let engine = Engine::start();
    let keys = json!({"keys": [{"name": "bob", "key": BOB}]});
    let plan = plan(&engine, 1).edge_value("/auth", keys.clone());
    let mut lab = Lab::start(plan.edge_value("/http/listen", json!("0.0.0.0:0"))).await;
    assert!(lab.http.ip().is_unspecified(), "{}", lab.http);
    lab.http.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
    assert_eq!(lab.send(with_key(BOB, "before")).answer().await.status, 200);

    lab.rewrite_edge_config(|edge| edge["auth"] = json!({"keys": []}));
    assert_eq!(lab.refresh("").await.status, 422);

    // Good for the next start, and the socket of this one is still open to everybody.
    let report = lab
        .reconfigure(|edge| {
            edge["auth"] = json!({"keys": []});
            edge["http"]["listen"] = json!("127.0.0.1:0");
        })
        .await;
    assert_eq!(report["needs_restart"], json!(["http: listen 0.0.0.0:0 -> 127.0.0.1:0"]), "{report}");
    for call in [chat(MODELS[0], "none"), with_key(BOB, "the one before"), Call::get("/v1/models")] {
        let refused = lab.send(call).answer().await;
        assert_eq!((refused.status.as_u16(), code(&refused).as_str()), (401, "invalid_api_key"));
        assert!(refused.text().contains("auth.keys is gone from its configuration"), "{refused:?}");
    }

    lab.reconfigure(|edge| edge["auth"] = keys).await;
    assert_eq!(lab.send(with_key(BOB, "after")).answer().await.status, 200);
    assert_eq!(lab.send(chat(MODELS[0], "none")).answer().await.status, 401);
    assert_eq!(texts(&engine), ["before", "after"]);
}
