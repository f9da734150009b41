//! Files that are wrong in what they ask of the queue or of long contexts: refused when the edge loads them and when they
//! are put in force, and nothing changes.

use crate::lab::{Lab, plan};
use iop_tests::engine::Engine;
use serde_json::{Value, json};

/// What is wrong, and the words that must be in the only issue.
type Case = (fn(&mut Value), &'static [&'static str]);

const CASES: [Case; 5] = [
    (
        |edge| edge["nodes"][0]["providers"][0]["max_queue"] = json!(4),
        &["providers[0].max_queue", "provider_pool"],
    ),
    (
        |edge| edge["nodes"][0]["providers"][0]["queue_timeout_ms"] = json!(4),
        &["providers[0].queue_timeout_ms", "provider_pool"],
    ),
    (|edge| edge["models"][0]["max_queue"] = json!(4), &["models[0].max_queue", "provider_pool"]),
    (
        |edge| edge["models"][1]["queue_timeout_ms"] = json!(4),
        &["models[1].queue_timeout_ms", "provider_pool"],
    ),
    (
        |edge| {
            let provider = &mut edge["nodes"][0]["providers"][0];
            provider["context_window_tokens"] = json!(1001);
            provider["long_context_capacity"] = json!(3);
            provider["total_context_tokens"] = json!(3002);
        },
        &["1001", "3", "3002", "context_window_tokens", "long_context_capacity", "total_context_tokens"],
    ),
];

// [queue-ownership] [long-state] [refresh-consistency]
#[tokio::test]
async fn wrong_queue_settings_and_too_many_long_contexts_are_refused_at_load_and_at_refresh() {
    let engine = Engine::start();
    let mut lab = Lab::start_edge(plan(&engine, 4)).await;
    let mut good = Value::Null;
    lab.rewrite_edge_config(|edge| good = edge.clone());
    for (spoil, words) in CASES {
        let mut bad = good.clone();
        spoil(&mut bad);
        lab.rewrite_edge_config(|edge| *edge = bad);

        let refused = lab.refresh("").await;
        assert_eq!(refused.status, 422, "{refused:?}");
        let issues = refused.json()["issues"].take();
        let [issue] = issues.as_array().map(Vec::as_slice).unwrap_or_default() else {
            panic!("one issue: {issues}")
        };
        let issue = issue.as_str().expect("an issue is a line");
        assert!(words.iter().all(|word| issue.contains(word)), "{words:?} in {issue}");

        let config = lab.snapshot().await["config"].take();
        assert_eq!(config["revision"], 1);
        let last_error = config["last_error"].as_str().expect("the snapshot says why");
        assert!(last_error.contains(issue), "{last_error}");

        let started = lab.run(&["edge", "--config", "edge.yaml"]).await;
        assert!(!started.status.success(), "an edge must not start: {started:?}");
        let said = started.stderr.join("\n");
        assert!(words.iter().all(|word| said.contains(word)), "{words:?} in {said}");
    }
    lab.rewrite_edge_config(|edge| *edge = good);
    assert_eq!(lab.refresh("").await.status, 200);
    assert_eq!(lab.snapshot().await["config"]["last_error"], Value::Null);
}
