//! Holds edge/CONTRACT-admin.md true against a running edge: every field, word and event of its tables is seen, and nothing
//! is seen that does not stand in them. [contract-spec-sync]

use crate::bounds::SUBSCRIBERS;
use crate::lab::{Lab, MODELS, NODE, PROVIDER, chat, plan};
use crate::subscriber::{Stalled, Subscriber};
use iop_edge::admission::Refusal;
use iop_tests::engine::Engine;
use iop_tests::http::{Call, Connection, send};
use iop_tests::process::Signal;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The rows of the table with this header, cells without their quotes.
fn rows<const CELLS: usize>(header: [&str; CELLS]) -> Vec<[String; CELLS]> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("edge/CONTRACT-admin.md");
    let contract = std::fs::read_to_string(path).expect("the contract lies beside the crate");
    let line = format!("| {} |", header.join(" | "));
    // Several tables may have the same header.
    let tables: Vec<&str> = contract.split(&format!("\n{line}\n")).skip(1).collect();
    assert!(!tables.is_empty(), "no table {line}");
    let lines =
        tables.into_iter().flat_map(|table| table.lines().skip(1).take_while(|line| line.starts_with('|')));
    lines
        .map(|line| {
            let cells =
                line.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`').to_owned());
            let cells: Vec<String> = cells.collect();
            cells.try_into().unwrap_or_else(|_| panic!("{CELLS} cells were due: {line}"))
        })
        .collect()
}

/// Whether a value is of a type as the contract writes it.
fn is_of(value: &Value, types: &str) -> bool {
    types.split(" or ").any(|word| match word {
        "text" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "flag" => value.is_boolean(),
        "list" => value.is_array(),
        "null" => value.is_null(),
        other => panic!("no type of the contract: {other}"),
    })
}

/// Every value of a JSON tree with its path, lists as `[]`.
fn leaves(value: &Value, path: &str, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                leaves(value, &path, found);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| leaves(value, &format!("{path}[]"), found)),
        other => found.push((path.to_owned(), other.clone())),
    }
}

/// Gives the edge a certificate that is to be renewed, of an authority that is not in its folder.
fn put_a_due_certificate(lab: &Lab) {
    let other = lab.path("other");
    let yesterday = iop_certs::now() - 24 * 60 * 60;
    iop_certs::init(&other, &iop_certs::InitOptions::default(), yesterday).expect("an authority");
    iop_certs::issue_edge(&other, 2, yesterday).expect("a certificate for another day");
    std::fs::rename(other.join("edge.pem"), lab.path("pki/edge.pem")).expect("a certificate");
}

/// What was seen of a running edge.
#[derive(Default)]
struct Seen {
    snapshots: Vec<Value>,
    events: Vec<Value>,
    reports: Vec<Value>,
    refusals: Vec<Value>,
}

/// Leads an edge through everything that the contract tells of.
async fn see() -> Seen {
    let [engine, dead] = [Engine::start(), Engine::start()];
    dead.crash();
    let plan = plan(&engine, 1)
        .provider(NODE, "off", &engine.endpoint(), 1)
        .provider(NODE, "forbidden", "http://127.0.0.1:9", 1)
        .provider(NODE, "dead", &dead.endpoint(), 1)
        .model("on-dead", &[(NODE, "dead")], "upstream")
        .edge_value("/nodes/0/providers/1/enabled", json!(false))
        .node_value(NODE, "/allow_endpoints", json!([engine.endpoint(), dead.endpoint()]));
    let mut lab = Lab::start_edge(plan).await;
    let mut seen = Seen::default();
    let mut events = Subscriber::open(&lab).await;
    let mut stalled = Stalled::open(&lab).await;
    seen.snapshots.push(lab.snapshot().await);

    lab.start_node(NODE).await;
    let settled = |snapshot: &Value| snapshot["nodes"][0]["providers"][2]["health"] == "refused";
    seen.snapshots.push(lab.wait_for("the node's confirmation", settled).await);
    assert_eq!(lab.send(chat("on-dead", "reaches nobody")).answer().await.status, 502);
    engine.hold();
    let running = lab.occupy(&engine, chat(MODELS[0], "runs")).await;
    let leaves = lab.enqueue(chat(MODELS[1], "leaves")).await;
    seen.snapshots.push(lab.snapshot().await);
    leaves.give_up();
    lab.wait_for_queue(0).await;
    let mut connection = Connection::open(lab.http).await.expect("connected");
    for _ in 0..1_100 {
        let refused = connection.send(chat("no-such-model", "fills the ring")).await.expect("an answer");
        assert_eq!(refused.status, 404);
    }

    lab.rewrite_edge_config(|edge| edge["provider_pool"]["max_queue"] = json!("many"));
    seen.refusals.push(lab.refresh("").await.json());
    seen.snapshots.push(lab.snapshot().await);
    std::fs::write(lab.path("pki/revoked"), "garbage").expect("a list");
    let bad = |snapshot: &Value| snapshot["revocations"]["last_error"].is_string();
    seen.snapshots.push(lab.wait_for("the list that is bad", bad).await);
    put_a_due_certificate(&lab);
    let due = |snapshot: &Value| snapshot["certificate"]["renewal_error"].is_string();
    seen.snapshots.push(lab.wait_for("the certificate that cannot be renewed", due).await);
    std::fs::write(lab.path("pki/edge.pem"), "garbage").expect("a certificate");
    let bad = |snapshot: &Value| snapshot["certificate"]["last_error"].is_string();
    seen.snapshots.push(lab.wait_for("the certificate that is bad", bad).await);
    seen.reports.push(lab.reconfigure(|edge| edge["provider_pool"]["max_queue"] = json!(7)).await);
    engine.release_all();
    assert_eq!(running.answer().await.status, 200);
    lab.stop_node(NODE, Signal::TERM).await;
    while seen.events.last().is_none_or(|event| event["event"] != "node_disconnected") {
        seen.events.push(events.next().await);
    }
    seen.events.push(stalled.missed().await);
    seen
}

#[tokio::test]
async fn fields_words_and_events_of_the_contract_are_those_of_a_running_edge() {
    let seen = see().await;
    fields_match(&seen.snapshots);
    words_match(&seen.snapshots);
    events_match(&seen.events);

    let rows = rows(["field", "type", "meaning"]);
    let (of_report, of_refusal) =
        rows.split_at(rows.iter().position(|row| row[0] == "error").expect("its row"));
    for (body, rows) in [(&seen.reports[0], of_report), (&seen.refusals[0], of_refusal)] {
        let fields = body.as_object().expect("an object");
        let expected: BTreeSet<&String> = rows.iter().map(|[field, ..]| field).collect();
        assert_eq!(fields.keys().collect::<BTreeSet<_>>(), expected);
        for [field, types, _] in rows {
            assert!(is_of(&fields[field], types), "{field} should be {types}: {body:#}");
        }
    }
}

fn fields_match(snapshots: &[Value]) {
    let rows = rows(["field", "type", "unit", "meaning"]);
    let types: BTreeMap<&str, &str> = rows.iter().map(|[field, types, ..]| (&**field, &**types)).collect();
    assert!(types.len() > 30, "the contract lists the fields of the snapshot");
    let mut found = Vec::new();
    snapshots.iter().for_each(|snapshot| leaves(snapshot, "", &mut found));
    let names: BTreeSet<&str> = found.iter().map(|(path, _)| &**path).collect();
    assert_eq!(names, types.keys().copied().collect());
    for (path, value) in &found {
        assert!(is_of(value, types[&**path]), "{path} should be {}: {value}", types[&**path]);
    }
    for (path, types) in types {
        for word in types.split(" or ") {
            let is_seen = found.iter().any(|(known, value)| known == path && is_of(value, word));
            assert!(is_seen, "{path} was never {word}");
        }
    }
}

fn words_match(snapshots: &[Value]) {
    let rows = rows(["of", "status", "health", "when"]);
    let listed: BTreeSet<[String; 3]> =
        rows.into_iter().map(|[of, status, health, _]| [of, status, health]).collect();
    assert_eq!(listed.len(), 7);
    let word = |entry: &Value, name: &str| entry[name].as_str().expect("a word").to_owned();
    let row = |of: &str, entry: &Value| [of.to_owned(), word(entry, "status"), word(entry, "health")];
    let mut seen = BTreeSet::new();
    for node in snapshots.iter().flat_map(|snapshot| snapshot["nodes"].as_array().expect("nodes")) {
        seen.insert(row("node", node));
        seen.extend(
            node["providers"].as_array().expect("providers").iter().map(|entry| row("provider", entry)),
        );
    }
    assert_eq!(seen, listed);
}

fn events_match(events: &[Value]) {
    let mut types: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for [event, field, types_of, _] in rows(["event", "field", "type", "meaning"]) {
        types.entry(event).or_default().insert(field, types_of);
    }
    let mut seen = BTreeSet::new();
    for event in events {
        let name = event["event"].as_str().expect("the event's name");
        let expected = types.get(name).unwrap_or_else(|| panic!("not in the contract: {event}"));
        let fields: BTreeSet<&String> =
            event.as_object().expect("an object").keys().filter(|field| *field != "event").collect();
        assert_eq!(fields, expected.keys().collect(), "{event}");
        for (field, types) in expected {
            assert!(is_of(&event[field], types), "{field} should be {types}: {event}");
        }
        seen.insert(name);
    }
    assert_eq!(seen, types.keys().map(String::as_str).collect(), "every event of the contract happened");
}

#[test]
fn the_reasons_of_the_contract_are_those_of_admission() {
    let timeout = Duration::ZERO;
    let refusals = [
        Refusal::ModelNotFound,
        Refusal::ApiNotServed,
        Refusal::ContextLengthExceeded { tokens: 0, window: 0 },
        Refusal::Unavailable,
        Refusal::QueueFull { max: 0 },
        Refusal::KeyQueueFull { max: 0 },
        Refusal::QueueTimeout { timeout },
        Refusal::NoOtherProvider,
    ];
    // Does not compile with a reason that is missing above.
    let place = |refusal: &Refusal| match refusal {
        Refusal::ModelNotFound => 0,
        Refusal::ApiNotServed => 1,
        Refusal::ContextLengthExceeded { .. } => 2,
        Refusal::Unavailable => 3,
        Refusal::QueueFull { .. } => 4,
        Refusal::KeyQueueFull { .. } => 5,
        Refusal::QueueTimeout { .. } => 6,
        Refusal::NoOtherProvider => 7,
    };
    let listed: Vec<String> = rows(["reason", "meaning"]).into_iter().map(|[reason, _]| reason).collect();
    assert_eq!(listed, refusals.iter().map(Refusal::name).collect::<Vec<_>>());
    assert!(refusals.iter().map(place).eq(0..listed.len()));
}

#[tokio::test]
async fn errors_have_the_status_of_the_contract() {
    let engine = Engine::start();
    let mut lab = Lab::start_edge(plan(&engine, 1)).await;
    lab.rewrite_edge_config(|edge| edge["nodes"][0]["providers"][0]["capacity"] = json!(0));
    let post = |path: &str| Call::new("POST".parse().expect("a method"), path);
    let calls = [
        (post("/admin/v1/refresh?everything"), 400, ""),
        (post("/admin/v1/refresh").header("origin", "https://page.example"), 403, ""),
        (Call::get("/admin/v1/nothing"), 404, ""),
        (Call::get("/admin/v1/refresh"), 405, "POST"),
        (Call::get("/admin/v1/drain?node=gpu-a"), 405, "POST"),
        (post("/admin/v1/drain?node=gpu-a"), 409, ""),
        (post("/admin/v1/snapshot"), 405, "GET"),
        (post("/admin/v1/refresh"), 422, ""),
    ];
    let mut streams = Vec::new();
    for _ in 0..SUBSCRIBERS {
        streams.push(Subscriber::open(&lab).await);
    }
    let keyed = Lab::start_edge(plan(&engine, 1).admin_key("operators-key")).await;
    let calls = calls.map(|(call, status, allow)| (lab.admin, call, status, allow)).into_iter().chain([
        (lab.admin, Call::get("/admin/v1/events"), 429, ""),
        (keyed.admin, Call::get("/admin/v1/snapshot"), 401, ""),
    ]);
    let mut statuses = BTreeSet::new();
    for (admin, call, status, allow) in calls {
        let path = call.path.clone();
        let answer = send(admin, call).await.expect("an answer");
        assert_eq!((answer.status.as_u16(), answer.header("allow")), (status, allow), "{path}");
        assert!(answer.json()["error"].is_string(), "{answer:?}");
        statuses.insert(status.to_string());
    }
    let listed: BTreeSet<String> = rows(["status", "when"]).into_iter().map(|[status, _]| status).collect();
    assert_eq!(statuses, listed);
    let view = &lab.snapshot().await["nodes"][0]["providers"][0];
    assert_eq!((&view["id"], &view["capacity"]), (&json!(PROVIDER), &json!(1)));
}
