//! What a refresh answers.

use crate::lab::{Lab, NODE, plan};
use iop_tests::engine::Engine;
use serde_json::{Value, json};

/// The lines of one list of a report, as one text.
fn lines(report: &Value, list: &str) -> String {
    let lines = report[list].as_array().unwrap_or_else(|| panic!("{list} is a list: {report:#}"));
    lines.iter().map(|line| line.as_str().expect("a line")).collect::<Vec<_>>().join("\n")
}

// [refresh-consistency]
#[tokio::test]
async fn a_refresh_says_what_changed_what_waits_for_a_node_and_what_needs_a_restart() {
    let engine = Engine::start();
    let mut lab = Lab::start_edge(plan(&engine, 1)).await;
    let report = lab
        .reconfigure(|edge| {
            edge["nodes"][0]["providers"][0]["capacity"] = json!(3);
            edge["provider_pool"]["max_queue"] = json!(9);
            edge["quic"]["idle_timeout_ms"] = json!(20_000);
        })
        .await;
    let applied = lines(&report, "applied");
    assert!(applied.contains("capacity") && applied.contains("max_queue"), "{report:#}");
    assert!(!applied.contains("idle_timeout_ms"), "{report:#}");
    assert_eq!(report["waiting_for_nodes"], json!([NODE]));
    assert!(lines(&report, "needs_restart").contains("idle_timeout_ms"), "{report:#}");
    assert_eq!(lab.snapshot().await["queue"]["max"], 9);

    // The same file again: nothing is new, and what needs a restart still does.
    let again = lab.refresh("").await.json();
    assert_eq!((&again["applied"], &again["waiting_for_nodes"]), (&json!([]), &json!([])));
    assert_eq!(again["config_revision"], report["config_revision"]);
    assert!(lines(&again, "needs_restart").contains("idle_timeout_ms"), "{again:#}");

    // A node that is taken out gets nothing any more, so nothing waits for it.
    let report = lab
        .reconfigure(|edge| {
            edge["nodes"] = json!([]);
            edge["models"] = json!([]);
            edge["quic"].as_object_mut().expect("a section").remove("idle_timeout_ms");
        })
        .await;
    assert!(lines(&report, "applied").contains(NODE), "{report:#}");
    assert_eq!((&report["waiting_for_nodes"], &report["needs_restart"]), (&json!([]), &json!([])));
}

// [refresh-consistency]
#[tokio::test]
async fn a_dry_run_says_what_would_change_and_changes_nothing() {
    let engine = Engine::start();
    let mut lab = Lab::start(plan(&engine, 1)).await;
    for query in ["?dry_run", "?dry_run=true"] {
        lab.rewrite_edge_config(|edge| edge["nodes"][0]["providers"][0]["capacity"] = json!(3));
        let answer = lab.refresh(query).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let report = answer.json();
        assert!(lines(&report, "applied").contains("capacity"), "{report:#}");
        let snapshot = lab.snapshot().await;
        assert_eq!((&snapshot["config"]["revision"], &report["config_revision"]), (&json!(1), &json!(1)));
        assert_eq!(snapshot["nodes"][0]["providers"][0]["capacity"], 1);

        // The file is taken back at once, before a look finds it.
        lab.rewrite_edge_config(|edge| edge["nodes"][0]["providers"][0]["capacity"] = json!(0));
        assert_eq!(lab.refresh(query).await.status, 422);
        assert_eq!(lab.snapshot().await["config"]["last_error"], Value::Null, "nothing was tried");
        lab.rewrite_edge_config(|edge| edge["nodes"][0]["providers"][0]["capacity"] = json!(1));
    }
    let unknown = lab.refresh("?dryrun").await;
    assert_eq!(unknown.status, 400, "a misspelt option must not apply anything: {unknown:?}");
}

// [refresh-consistency]
#[tokio::test]
async fn a_wrong_file_is_answered_with_everything_that_is_wrong_with_it() {
    let engine = Engine::start();
    let mut lab = Lab::start_edge(plan(&engine, 1)).await;
    lab.rewrite_edge_config(|edge| {
        edge["nodes"][0]["providers"][0]["capacity"] = json!(0);
        edge["provider_pool"]["max_queue"] = json!(-1);
        edge["models"][1]["candidates"][0]["provider"] = json!("nobody");
        edge["unheard_of"] = json!(true);
    });
    let answer = lab.refresh("").await;
    assert_eq!(answer.status, 422, "{answer:?}");
    let body = answer.json();
    let issues = lines(&body, "issues");
    assert_eq!(issues.lines().count(), 4, "{issues}");
    for words in ["providers[0].capacity", "provider_pool.max_queue", "nobody", "unheard_of"] {
        let line = issues.lines().find(|line| line.contains(words));
        let line = line.unwrap_or_else(|| panic!("{words} in {issues}"));
        assert!(line.starts_with(|start: char| start.is_ascii_digit()), "with its place: {line}");
        assert!(body["error"].as_str().expect("a text").contains(words), "{body:#}");
    }
    let snapshot = lab.snapshot().await;
    assert_eq!(snapshot["config"]["last_error"], body["error"]);
    let unchanged = (&snapshot["config"]["revision"], &snapshot["queue"]["max"]);
    assert_eq!(unchanged, (&json!(1), &json!(256)));
}
