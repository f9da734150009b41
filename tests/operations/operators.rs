//! The operators' key: who may use the admin listener, where it may listen without one, and that the key is never shown.

use crate::lab::{Lab, plan};
use crate::subscriber::Subscriber;
use iop_tests::deployment::Plan;
use iop_tests::engine::Engine;
use iop_tests::http::{Answer, Call, RawConnection, open, send};
use iop_tests::process::Finished;
use serde_json::json;
use std::net::SocketAddr;

const KEY: &str = "operators-secret-7d1e";
const OTHER: &str = "other-secret-c0a3";

/// Everything that can be asked for.
const PATHS: [(&str, &str); 5] = [
    ("GET", "/admin/v1/snapshot"),
    ("GET", "/admin/v1/events"),
    ("POST", "/admin/v1/refresh"),
    ("POST", "/admin/v1/drain?node=gpu-a"),
    ("GET", "/admin/v1/nothing"),
];

fn call(method: &str, path: &str) -> Call {
    Call::new(method.parse().expect("a method"), path)
}

fn snapshot_with(authorization: &str) -> Call {
    Call::get("/admin/v1/snapshot").header("authorization", authorization)
}

async fn ask(admin: SocketAddr, call: Call) -> Answer {
    send(admin, call).await.expect("an answer")
}

fn assert_turned_away(answer: &Answer, says: &str) {
    assert_eq!((answer.status.as_u16(), answer.header("www-authenticate")), (401, "Bearer"), "{answer:?}");
    assert_eq!(answer.header("content-type"), "application/json");
    let error = answer.json()["error"].as_str().expect("a text").to_owned();
    assert!(error.contains(says), "{error}");
}

#[tokio::test]
async fn nothing_is_answered_without_the_key_and_everything_with_it() {
    let engine = Engine::start();
    let lab = Lab::start(plan(&engine, 1).admin_key(KEY)).await;
    for (method, path) in PATHS {
        assert_turned_away(&ask(lab.admin, call(method, path)).await, "`Authorization: Bearer KEY`");
        let wrong = call(method, path).header("authorization", &format!("Bearer {OTHER}"));
        assert_turned_away(&ask(lab.admin, wrong).await, "admin.key_env");
    }
    for wrong in [format!("Bearer {KEY}x"), format!("Bearer {}", &KEY[..KEY.len() - 1])] {
        assert_turned_away(&ask(lab.admin, snapshot_with(&wrong)).await, "admin.key_env");
    }
    for none in ["Bearer ".to_owned(), format!("Basic {KEY}"), KEY.to_owned(), format!("Bearer{KEY}")] {
        assert_turned_away(&ask(lab.admin, snapshot_with(&none)).await, "Bearer KEY");
    }
    let as_clients_may = Call::get("/admin/v1/snapshot").header("x-api-key", KEY);
    assert_turned_away(&ask(lab.admin, as_clients_may).await, "Bearer KEY");
    assert!(lab.snapshot().await["nodes"][0]["connected"] == true, "nobody drained or changed anything");

    let with_key =
        |method: &str, path: &str| call(method, path).header("authorization", &format!("bearer  {KEY}"));
    let events = open(lab.admin, with_key("GET", "/admin/v1/events")).await.expect("an answer begins");
    assert_eq!(
        (events.status.as_u16(), &events.headers["content-type"]),
        (200, &"text/event-stream".parse().expect("a value"))
    );
    for (path, status) in [(PATHS[0], 200), (PATHS[2], 200), (PATHS[3], 202), (PATHS[4], 404)] {
        assert_eq!(ask(lab.admin, with_key(path.0, path.1)).await.status, status, "{path:?}");
    }

    let edge = [lab.edge.stdout(), lab.edge.stderr()].concat().join("\n");
    assert!(edge.contains("turned a request of an operator away"), "{edge}");
    let snapshot = lab.snapshot().await.to_string();
    assert!(!edge.contains("-secret") && !snapshot.contains("-secret"), "a key is shown: {edge}\n{snapshot}");
}

// [refresh-consistency]
#[tokio::test]
async fn another_key_counts_at_once_for_new_requests_and_streams_go_on() {
    let engine = Engine::start();
    let plan = plan(&engine, 1).edge_env("FIRST", KEY).edge_env("SECOND", OTHER);
    let mut lab = Lab::start_edge(plan).await;
    let mut events = Subscriber::open(&lab).await;
    let key_env = |lab: &mut Lab, name: &str| {
        lab.rewrite_edge_config(|edge| edge["admin"]["key_env"] = json!(name));
    };
    let refresh =
        |key: &str| call("POST", "/admin/v1/refresh").header("authorization", &format!("Bearer {key}"));
    let snapshot = |key: &str| snapshot_with(&format!("Bearer {key}"));

    key_env(&mut lab, "FIRST");
    let report = ask(lab.admin, refresh("any, for none is asked for")).await;
    assert_eq!(
        (report.status.as_u16(), &report.json()["applied"]),
        (200, &json!(["admin: key_env changed"]))
    );
    assert_turned_away(&ask(lab.admin, Call::get("/admin/v1/snapshot")).await, "Bearer KEY");

    key_env(&mut lab, "SECOND");
    let report = ask(lab.admin, refresh(KEY)).await;
    assert_eq!(report.json()["applied"], json!(["admin: key_env changed"]), "{report:?}");
    assert_eq!(ask(lab.admin, snapshot(KEY)).await.status, 401);
    assert_eq!(ask(lab.admin, snapshot(OTHER)).await.status, 200);

    // A variable that this process does not have: nothing changes.
    key_env(&mut lab, "THIRD");
    let refused = ask(lab.admin, refresh(OTHER)).await;
    assert_eq!(refused.status, 422);
    assert!(refused.text().contains("the environment variable `THIRD`, which is not set"), "{refused:?}");
    assert_eq!(ask(lab.admin, snapshot(OTHER)).await.status, 200);

    lab.rewrite_edge_config(|edge| edge["admin"] = json!({"listen": "127.0.0.1:0"}));
    assert_eq!(ask(lab.admin, refresh(OTHER)).await.status, 200);
    lab.snapshot().await;
    for revision in [2, 3] {
        assert_eq!(events.next().await, json!({"event": "config_applied", "config_revision": revision}));
    }
    assert_eq!(events.next().await["event"], "config_refused");
    assert_eq!(events.next().await["config_revision"], 4);
}

async fn start_of(edge: serde_json::Value) -> Finished {
    let lab = Lab::start_edge(Plan::new()).await;
    std::fs::write(lab.path("other.yaml"), edge.to_string()).expect("the folder is ours");
    lab.run(&["edge", "--config", "other.yaml"]).await
}

#[tokio::test]
async fn an_edge_that_others_could_administrate_without_a_key_does_not_start_and_names_both_ways_out() {
    let edge = json!({"certs": {"dir": "pki"}, "http": {"listen": "127.0.0.1:0"}, "quic": {"listen": "127.0.0.1:0"},
        "admin": {"listen": "0.0.0.0:0"}});
    let refused = start_of(edge).await;
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(2), 0), "{refused:#?}");
    let says = "admin.listen: found `0.0.0.0:0`, expected a loopback address while there is no `admin.key_env`, or a key there";
    assert!(refused.stderr.iter().any(|line| line.ends_with(says)), "{refused:#?}");
}

#[tokio::test]
async fn with_a_key_the_edge_listens_for_operators_anywhere_and_never_goes_without_one_there() {
    let plan = Plan::new().edge_value("/admin/listen", json!("0.0.0.0:0")).admin_key(KEY);
    let mut lab = Lab::start_edge(plan).await;
    assert!(lab.admin.ip().is_unspecified(), "{}", lab.admin);
    let loopback = SocketAddr::from(([127, 0, 0, 1], lab.admin.port()));
    lab.admin = loopback;
    assert_turned_away(&ask(loopback, Call::get("/admin/v1/snapshot")).await, "Bearer KEY");
    lab.snapshot().await;

    lab.rewrite_edge_config(|edge| edge["admin"] = json!({"listen": "0.0.0.0:0"}));
    assert_eq!(lab.refresh("").await.status, 422);
    lab.snapshot().await;

    // Good for the next start, and the socket of this one is still open to everybody.
    lab.rewrite_edge_config(|edge| edge["admin"] = json!({"listen": "127.0.0.1:0"}));
    let report = lab.refresh("").await.json();
    assert_eq!(report["needs_restart"], json!(["admin: listen 0.0.0.0:0 -> 127.0.0.1:0"]), "{report}");
    for call in [Call::get("/admin/v1/snapshot"), snapshot_with(&format!("Bearer {KEY}"))] {
        assert_turned_away(&ask(loopback, call).await, "admin.key_env is gone");
    }
}

fn assert_forbidden(answer: &Answer, says: &str) {
    assert_eq!((answer.status.as_u16(), answer.header("www-authenticate")), (403, ""), "{answer:?}");
    assert_eq!(answer.header("content-type"), "application/json");
    let error = answer.json()["error"].as_str().expect("a text").to_owned();
    assert!(error.contains(says) && error.contains("admin.key_env"), "{error}");
}

/// A page can make a browser on the edge's machine send anything but a `host` of its choice, and none without its `origin`
/// where that would change something; the name of its own server may come to point at this machine.
#[tokio::test]
async fn without_a_key_no_web_page_reads_or_changes_anything() {
    let engine = Engine::start();
    let lab = Lab::start(plan(&engine, 1)).await;
    let port = lab.admin.port();
    for (method, path) in PATHS {
        for origin in ["https://page.example", "null", "http://127.0.0.1:9090"] {
            let call = call(method, path).header("origin", origin);
            assert_forbidden(&ask(lab.admin, call).await, "from a web page");
        }
        for host in ["page.example", &format!("page.example:{port}"), "localhost.page.example"] {
            let call = call(method, path).header("host", host);
            assert_forbidden(&ask(lab.admin, call).await, "neither an IP address nor `localhost`");
        }
    }
    let by_target = "GET http://page.example/admin/v1/snapshot HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut connection = RawConnection::open(lab.admin).await.expect("connected");
    connection.send(by_target).await.expect("sent");
    let answer = connection.read_through("\r\n").await.expect("an answer");
    assert!(answer.contains(" 403 "), "{answer}");
    assert_eq!(
        lab.snapshot().await["nodes"][0]["providers"][0]["health"],
        "online",
        "the node was not drained"
    );

    for host in ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:9090", "192.0.2.7"] {
        let answer = ask(lab.admin, Call::get("/admin/v1/snapshot").header("host", host)).await;
        assert_eq!(answer.status, 200, "{host}");
    }
    let refused = |line: &String| line.contains("turned a request of an operator away");
    let edge = [lab.edge.stdout(), lab.edge.stderr()].concat();
    assert!(edge.iter().any(refused), "{edge:#?}");
}

#[tokio::test]
async fn with_a_key_a_proxy_may_pass_requests_on_for_any_page_and_any_host() {
    let lab = Lab::start_edge(Plan::new().admin_key(KEY)).await;
    let call = snapshot_with(&format!("Bearer {KEY}")).header("origin", "https://edge.example");
    assert_eq!(ask(lab.admin, call.header("host", "edge.example")).await.status, 200);
}
