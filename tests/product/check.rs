//! Wrong configuration files: every error at once, in `iop config check` and in the daemons alike, with exit code 2.

use crate::lab::{Site, assert_failed};
use iop_tests::process::Finished;

const EDGE: &str = r#"quic: { listen: nowhere }
http: { listne: "127.0.0.1:0" }
certs: { dir: pki }
nodes:
  - id: gpu-a
    providers:
      - { id: llama, adapter: openai, endpoint: "http://127.0.0.1:1", capacity: 0 }
"#;

const EDGE_ISSUES: [&str; 3] = [
    "wrong.yaml:1:17: quic.listen: found `nowhere`, expected an IP address and port, like 127.0.0.1:8080 or \"[::]:7443\"",
    "wrong.yaml:2:9: http.listne: found an unknown key, expected a known key (did you mean `listen`?)",
    "wrong.yaml:7:81: nodes[0].providers[0].capacity: found `0`, expected an integer from 1 to 4096",
];

const NODE: &str = "edge: { addresses: [] }
certs: { bundle: gpu-a.pem }
keep_alive_ms: 1
reconnect: { max_attempts: -1 }
";

const NODE_ISSUES: [&str; 3] = [
    "wrong.yaml:1:20: edge.addresses: found an empty list, expected a list of 1 to 64 addresses, each of them host:port, like edge.example.com:7443, 192.0.2.7:7443 or [2001:db8::7]:7443",
    "wrong.yaml:3:16: keep_alive_ms: found `1`, expected an integer from 500 to 20000",
    "wrong.yaml:4:28: reconnect.max_attempts: found `-1`, expected an integer from 0 to 4294967295",
];

fn assert_checked(checked: &Finished, issues: &[&str]) {
    assert_eq!(checked.status.code(), Some(2), "{checked:#?}");
    assert_eq!(checked.stdout, issues);
    assert_eq!(checked.stderr, ["iop: wrong.yaml has 3 error(s)"]);
}

fn assert_not_started(daemon: &Finished, issues: &[&str]) {
    let printed = [issues, &["iop: wrong.yaml has 3 error(s)"]].concat();
    assert_eq!(daemon.stderr, printed, "the same lines as the check prints");
    assert_failed(daemon, 2, &[]);
}

#[tokio::test]
async fn three_errors_of_an_edge_file_are_three_lines_with_place_path_found_and_expected() {
    let site = Site::new().await;
    site.write("wrong.yaml", EDGE);
    assert_checked(&site.run(&["config", "check", "wrong.yaml"]).await, &EDGE_ISSUES);
    assert_not_started(&site.run(&["edge", "--config", "wrong.yaml"]).await, &EDGE_ISSUES);
}

#[tokio::test]
async fn three_errors_of_a_node_file_are_three_lines_with_place_path_found_and_expected() {
    let site = Site::new().await;
    site.write("wrong.yaml", NODE);
    assert_checked(&site.run(&["config", "check", "wrong.yaml"]).await, &NODE_ISSUES);
    assert_not_started(&site.run(&["node", "--config", "wrong.yaml"]).await, &NODE_ISSUES);
}

#[tokio::test]
async fn good_files_are_called_by_their_kind_and_a_missing_one_by_its_path() {
    let site = Site::empty();
    site.write_edge();
    site.write_node("127.0.0.1:1", "gpu-a.pem");
    for (file, kind) in [("edge.yaml", "the edge's file"), ("node.yaml", "a node's file")] {
        let checked = site.run(&["config", "check", file]).await.expect_success("the check");
        assert_eq!(checked.stdout, [format!("{file}: valid, {kind}")]);
    }
    for args in [
        ["config", "check", "gone.yaml"],
        ["edge", "--config", "gone.yaml"],
        ["node", "--config", "gone.yaml"],
    ] {
        let finished = site.run(&args).await;
        assert_failed(&finished, 2, &["cannot read the configuration file gone.yaml", "No such file"]);
    }
}
