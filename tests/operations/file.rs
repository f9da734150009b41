//! How a changed file comes in force: asked for by HTTP, by signal, or noticed; written in every way in which people and
//! systems write files.

use crate::lab::{DEADLINE, Lab, MODELS, chat, plan};
use crate::subscriber::Subscriber;
use iop_tests::deadline::wait_until;
use iop_tests::engine::Engine;
use iop_tests::process::Signal;
use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

/// Looks at the file that show what does not happen; the edge looks once a second.
const SEVERAL_LOOKS: Duration = Duration::from_millis(3_500);

/// The edge's file with another `max_queue`, as text.
fn with_max_queue(lab: &Lab, max_queue: u64) -> String {
    let text = std::fs::read_to_string(lab.path("edge.yaml")).expect("the edge's file");
    let mut edge: Value = serde_json::from_str(&text).expect("it is JSON, which is YAML too");
    edge["provider_pool"]["max_queue"] = json!(max_queue);
    format!("{edge:#}\n")
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("the deployment's folder can be written to");
}

fn append(path: &Path, text: &str) {
    let mut file = OpenOptions::new().append(true).open(path).expect("the file is there");
    file.write_all(text.as_bytes()).expect("it can be written to");
}

/// A way to have a changed file put in force.
type Way = (&'static str, fn(&Lab, &str));

const WAYS: [Way; 4] = [
    ("signal", |lab, text| {
        write(&lab.path("edge.yaml"), text);
        lab.edge.signal(Signal::HUP);
    }),
    ("rewrite in place", |lab, text| write(&lab.path("edge.yaml"), text)),
    ("atomic rename", |lab, text| {
        write(&lab.path("next.yaml"), text);
        std::fs::rename(lab.path("next.yaml"), lab.path("edge.yaml")).expect("renamed");
    }),
    // As volumes of containers change: the name stays, what it points to is another folder.
    ("symlink swap", |lab, text| {
        std::fs::create_dir_all(lab.path("volume")).expect("a folder");
        write(&lab.path("volume/edge.yaml"), text);
        symlink("volume/edge.yaml", lab.path("next.yaml")).expect("a link");
        std::fs::rename(lab.path("next.yaml"), lab.path("edge.yaml")).expect("renamed");
    }),
];

// [refresh-consistency]
#[tokio::test]
async fn a_changed_file_comes_in_force_once_however_it_was_written_and_whoever_asked() {
    let engine = Engine::start();
    let mut lab = Lab::start_edge(plan(&engine, 1)).await;
    let mut events = Subscriber::open(&lab).await;
    let report = lab.reconfigure(|edge| edge["provider_pool"]["max_queue"] = json!(100)).await;
    assert_eq!(report["config_revision"], 2, "{report:#}");
    for ((way, put), round) in WAYS.into_iter().zip(1..) {
        let (max_queue, revision) = (100 + round, 2 + round);
        put(&lab, &with_max_queue(&lab, max_queue));
        let what = format!("{way}: max_queue {max_queue} in force");
        let snapshot = lab.wait_for(&what, |snapshot| snapshot["queue"]["max"] == max_queue).await;
        assert_eq!(snapshot["config"]["revision"], revision, "{way}: {snapshot:#}");
        assert_eq!(snapshot["config"]["last_error"], Value::Null);
        assert_eq!(snapshot["config"]["source"], "edge.yaml");
    }
    // Of each change there is one event, in order, however long the edge looks on.
    tokio::time::sleep(SEVERAL_LOOKS).await;
    for revision in 2..=2 + WAYS.len() as u64 {
        assert_eq!(events.next().await, json!({"event": "config_applied", "config_revision": revision}));
    }
    let revision = lab.snapshot().await["config"]["revision"].take();
    assert_eq!(revision, 2 + WAYS.len() as u64, "nothing was applied twice");
    wait_until("a line for each change and no more", DEADLINE, || {
        let logged = lab.edge.stdout().into_iter().chain(lab.edge.stderr());
        let changes: Vec<String> = logged.filter(|line| line.contains("configuration changed")).collect();
        if changes.len() == 1 + WAYS.len() { Ok(()) } else { Err(changes) }
    })
    .await;
}

// [refresh-consistency]
#[tokio::test]
async fn half_a_file_changes_nothing_is_reported_once_and_the_whole_of_it_comes_in_force() {
    let engine = Engine::start();
    let lab = Lab::start(plan(&engine, 1)).await;
    let text = with_max_queue(&lab, 7);
    let (half, rest) = text.split_at(text.len() / 2);
    write(&lab.path("edge.yaml"), half);
    // Nobody can tell a writer that pauses from one that has ended, so it is reported.
    let snapshot =
        lab.wait_for("the half reported", |snapshot| snapshot["config"]["last_error"].is_string()).await;
    assert_eq!((&snapshot["config"]["revision"], &snapshot["queue"]["max"]), (&json!(1), &json!(256)));
    tokio::time::sleep(SEVERAL_LOOKS).await;
    assert_eq!(lab.snapshot().await["config"]["revision"], 1);
    assert_eq!(lab.send(chat(MODELS[0], "served all the while")).answer().await.status, 200);
    append(&lab.path("edge.yaml"), rest);
    let snapshot = lab.wait_for("the whole in force", |snapshot| snapshot["config"]["revision"] == 2).await;
    assert_eq!((&snapshot["config"]["last_error"], &snapshot["queue"]["max"]), (&Value::Null, &json!(7)));
    let logged = lab.edge.stdout().into_iter().chain(lab.edge.stderr());
    let complaints: Vec<String> = logged.filter(|line| line.contains("not in force")).collect();
    assert_eq!(complaints.len(), 1, "once, not at every look: {complaints:#?}");
}

// [refresh-consistency]
#[tokio::test]
async fn a_file_that_is_still_being_written_is_left_alone_until_it_is_whole() {
    let engine = Engine::start();
    let lab = Lab::start_edge(plan(&engine, 1)).await;
    let text = with_max_queue(&lab, 7);
    let pieces: Vec<&[u8]> = text.as_bytes().chunks(text.len() / 16).collect();
    assert!(pieces.len() >= 16);
    let path = lab.path("edge.yaml");
    write(&path, "");
    for piece in pieces {
        append(&path, std::str::from_utf8(piece).expect("the file is ASCII"));
        let snapshot = lab.snapshot().await;
        assert_eq!(snapshot["config"]["last_error"], Value::Null, "half a file was read");
        // A writer's pause, well below the time between two looks.
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let snapshot = lab.wait_for("the file in force", |snapshot| snapshot["config"]["revision"] == 2).await;
    assert_eq!((&snapshot["config"]["last_error"], &snapshot["queue"]["max"]), (&Value::Null, &json!(7)));
}

// [refresh-consistency]
#[tokio::test]
async fn a_bad_file_that_is_corrected_to_what_is_in_force_leaves_no_error_behind() {
    let engine = Engine::start();
    let lab = Lab::start_edge(plan(&engine, 1)).await;
    let mut events = Subscriber::open(&lab).await;
    let good = std::fs::read_to_string(lab.path("edge.yaml")).expect("the edge's file");
    write(&lab.path("edge.yaml"), "nodes: 3\n");
    lab.edge.signal(Signal::HUP);
    assert_eq!(events.next().await["event"], "config_refused");
    write(&lab.path("edge.yaml"), &good);
    lab.edge.signal(Signal::HUP);
    assert_eq!(events.next().await, json!({"event": "config_applied", "config_revision": 1}));
    let config = lab.snapshot().await["config"].take();
    assert_eq!((&config["revision"], &config["last_error"]), (&json!(1), &Value::Null));
}

// [refresh-consistency]
#[tokio::test]
async fn a_file_that_is_missing_for_a_while_changes_nothing() {
    let engine = Engine::start();
    let lab = Lab::start_edge(plan(&engine, 1)).await;
    let text = with_max_queue(&lab, 7);
    std::fs::remove_file(lab.path("edge.yaml")).expect("removed");
    let answer = lab.refresh("").await;
    assert_eq!(answer.status, 422, "{answer:?}");
    assert!(answer.text().contains("edge.yaml"), "{answer:?}");
    tokio::time::sleep(SEVERAL_LOOKS).await;
    assert_eq!(lab.snapshot().await["config"]["revision"], 1);
    write(&lab.path("edge.yaml"), &text);
    lab.wait_for("the new file in force", |snapshot| snapshot["queue"]["max"] == 7).await;
}
