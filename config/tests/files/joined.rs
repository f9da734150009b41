//! Rules that join several settings of the edge's or a node's file.

use crate::{Case, assert_issues, edge, lines, node};

#[test]
fn listeners_and_sizes_must_fit_each_other() {
    let cases = [
        Case {
            text: "certs: { dir: pki }\nhttp: { listen: \"127.0.0.1:9090\", max_body_bytes: 536870913 }\n",
            issues: &[
                "1:1: admin.listen: found `127.0.0.1:9090`, expected an address that `http.listen`, 127.0.0.1:9090, does not take",
                "2:1: http.max_buffered_bytes: found `536870912`, expected at least `http.max_body_bytes`, 536870913",
            ],
        },
        Case {
            text: "certs: { dir: pki }\nhttp: { listen: \"127.0.0.1:80\" }\nadmin: { listen: \"[::]:80\", key_env: OPERATOR_KEY }\n",
            issues: &[
                "3:18: admin.listen: found `[::]:80`, expected an address that `http.listen`, 127.0.0.1:80, does not take",
            ],
        },
        Case {
            text: "certs: { dir: pki }\nhttp: { cors_origins: [\"https://a.example\", \"*\"] }\n",
            issues: &[
                "2:45: http.cors_origins[1]: found `*` beside other origins, expected `*` alone, or origins without it",
            ],
        },
        Case {
            text: "certs: { dir: pki }\nhttp: { listen: \"127.0.0.1:0\" }\nadmin: { listen: \"127.0.0.1:0\" }\n",
            issues: &[],
        },
        Case {
            text: "certs: { dir: pki }\nhttp: { listen: \"127.0.0.1:80\" }\nadmin: { listen: \"127.0.0.2:80\" }\n",
            issues: &[],
        },
    ];
    assert_issues(&cases, edge);
}

#[test]
fn an_edge_open_to_everybody_listens_on_loopback_only() {
    let refused = "2:17: http.listen: found `0.0.0.0:8080`, expected a loopback address while `auth.keys` is empty, or a key there";
    for auth in ["", "auth:\n", "auth: { keys: [] }\n"] {
        let text = format!("certs: {{ dir: pki }}\nhttp: {{ listen: \"0.0.0.0:8080\" }}\n{auth}");
        assert_eq!(lines(edge(&text)), [refused], "with {auth:?}");
        let text = text.replace("0.0.0.0", "[::1]");
        assert!(edge(&text).is_ok(), "loopback may be open: {text}");
    }
    let keyed =
        "certs: { dir: pki }\nhttp: { listen: \"0.0.0.0:8080\" }\nauth: { keys: [ { name: a, key: k } ] }\n";
    assert!(edge(keyed).is_ok(), "a key lets the edge listen anywhere");
    let wrong_key = keyed.replace("name: a", "name: \"a b\"");
    let reported = lines(edge(&wrong_key));
    assert_eq!(reported.len(), 1, "a key with an issue is still a key: {reported:#?}");
}

#[test]
fn an_edge_that_asks_operators_for_no_key_listens_for_them_on_loopback_only() {
    let text =
        |listen: &str, key: &str| format!("certs: {{ dir: pki }}\nadmin: {{ listen: \"{listen}\"{key} }}\n");
    for listen in ["0.0.0.0:9090", "[::]:0", "192.0.2.7:9090"] {
        let refused = format!(
            "2:18: admin.listen: found `{listen}`, expected a loopback address while there is no `admin.key_env`, or a key there"
        );
        assert_eq!(lines(edge(&text(listen, ""))), [refused]);
        assert!(
            edge(&text(listen, ", key_env: OPERATOR_KEY")).is_ok(),
            "a key lets the edge listen anywhere"
        );
    }
    for listen in ["127.0.0.1:9090", "127.0.0.2:0", "[::1]:9090"] {
        assert!(edge(&text(listen, "")).is_ok(), "loopback may be open: {listen}");
    }
    let clients = format!("{}auth: {{ keys: [ {{ name: a, key: k }} ] }}\n", text("0.0.0.0:9090", ""));
    assert_eq!(lines(edge(&clients)).len(), 1, "clients' keys are not the operators'");
    let unset = lines(edge(&text("0.0.0.0:9090", ", key_env: UNSET")));
    let [line] = unset.as_slice() else { panic!("a key with an issue is still a key: {unset:#?}") };
    assert!(
        line.contains("admin.key_env: found the environment variable `UNSET`, which is not set"),
        "{line}"
    );
}

#[test]
fn the_operators_key_is_no_clients_key() {
    let text = "certs: { dir: pki }\nadmin: { key_env: ALICE_KEY }\nauth: { keys: [ { name: bob, key: b }, { name: alice, key_env: ALICE_KEY } ] }\n";
    let refused =
        "2:19: admin.key_env: found the same key as the client `alice` has, expected a key of its own";
    assert_eq!(lines(edge(text)), [refused]);
    assert_eq!(lines(edge(&text.replacen("ALICE_KEY", "OPERATOR_KEY", 1))), Vec::<String>::new());
}

/// [long-state]
#[test]
fn long_context_must_fit_the_total_and_the_capacity() {
    let provider = |settings: &str| {
        format!(
            "certs: {{ dir: pki }}\nnodes: [ {{ id: a, providers: [ {{ id: p, adapter: echo, capacity: 4, {settings} }} ] }} ]\n"
        )
    };
    let window = "long_context_capacity: 2, context_window_tokens: 1000";
    let refused = [
        (
            format!("{window}, total_context_tokens: 1999"),
            "nodes[0].providers[0].total_context_tokens: found `1999`, expected at least 2000: `context_window_tokens` 1000 times `long_context_capacity` 2",
        ),
        (
            "long_context_capacity: 1, total_context_tokens: 1000".to_owned(),
            "nodes[0].providers[0].context_window_tokens: found nothing, expected the window, as `total_context_tokens` is 1000 and `long_context_capacity` 1",
        ),
        (
            "long_context_capacity: 5".to_owned(),
            "nodes[0].providers[0].long_context_capacity: found `5`, expected at most `capacity`, 4",
        ),
    ];
    for (settings, expected) in refused {
        let reported = lines(edge(&provider(&settings)));
        assert_eq!(reported.len(), 1, "{reported:#?}");
        assert!(reported[0].ends_with(expected), "{reported:#?}");
    }
    let largest =
        "long_context_capacity: 4, context_window_tokens: 1000000000, total_context_tokens: 1000000000";
    assert_eq!(lines(edge(&provider(largest))).len(), 1, "the largest numbers are multiplied without harm");
    for settings in [
        format!("{window}, total_context_tokens: 2000"),
        window.to_owned(),
        "long_context_capacity: 4".to_owned(),
        "total_context_tokens: 5".to_owned(),
        "context_window_tokens: 1000, total_context_tokens: 5".to_owned(),
    ] {
        assert_eq!(lines(edge(&provider(&settings))), Vec::<String>::new(), "{settings}");
    }
}

#[test]
fn ids_are_unique_and_candidates_exist() {
    let cases = [Case {
        text: "\
certs: { dir: pki }
nodes:
  - id: a
    providers:
      - { id: p, adapter: echo, capacity: 1 }
      - { id: p, adapter: echo, capacity: 1 }
  - id: a
  - id: b
models:
  - id: m
    candidates:
      - { node: a, provider: p }
      - { node: a, provider: p, upstream_model: other }
      - { node: c, provider: p }
      - { node: a, provider: q }
      - { node: b, provider: p }
  - { id: m, candidates: [ { node: a, provider: p } ] }
",
        issues: &[
            "6:15: nodes[0].providers[1].id: found `p` a second time, first in line 5, expected each once",
            "7:9: nodes[1].id: found `a` a second time, first in line 3, expected each once",
            "13:30: models[0].candidates[1].provider: found `a/p` a second time, first in line 12, expected each once",
            "14:17: models[0].candidates[2].node: found `c`, expected the id of a node in this file: `a`, `b`",
            "15:30: models[0].candidates[3].provider: found `q`, expected the id of a provider of `a`: `p`",
            "16:30: models[0].candidates[4].provider: found `p`, expected the id of a provider of `b`: there is none",
            "17:11: models[1].id: found `m` a second time, first in line 10, expected each once",
        ],
    }];
    assert_issues(&cases, edge);
}

#[test]
fn a_candidate_is_not_blamed_for_the_issues_of_what_it_names() {
    let text = "\
certs: { dir: pki }
nodes:
  - id: a
    providers:
      - { id: p, adapter: echo, capacity: 0 }
      - { id: Q, adapter: echo, capacity: 1 }
  - providers: [ { id: p, adapter: echo, capacity: 1 } ]
models:
  - id: m
    long_context_threshold_tokens: 5
    candidates: [ { node: a, provider: p }, { node: a, provider: q }, { node: b, provider: p } ]
";
    let reported = lines(edge(text));
    assert_eq!(reported.len(), 3, "the provider's capacity, an id and a node's id: {reported:#?}");
    assert!(reported.iter().all(|line| line.contains(": nodes[")), "{reported:#?}");
}

#[test]
fn a_model_with_long_requests_needs_a_candidate_with_long_slots() {
    let text = |long: u32| {
        format!(
            "certs: {{ dir: pki }}\nnodes:\n  - id: a\n    providers:\n      - {{ id: p, adapter: echo, capacity: 1 }}\n      - {{ id: q, adapter: echo, capacity: 1, long_context_capacity: {long} }}\nmodels:\n  - id: m\n    long_context_threshold_tokens: 5\n    candidates: [ {{ node: a, provider: p }}, {{ node: a, provider: q }} ]\n"
        )
    };
    let expected = "9:36: models[0].long_context_threshold_tokens: found `5`, expected no threshold while every candidate's `long_context_capacity` is 0: no long request could run";
    assert_eq!(lines(edge(&text(0))), [expected]);
    assert_eq!(lines(edge(&text(1))), Vec::<String>::new());
}

#[test]
fn each_adapter_has_its_own_keys() {
    let cases = [Case {
        text: "\
certs: { dir: pki }
nodes:
  - id: a
    providers:
      - { id: p, adapter: echo, capacity: 1, endpoint: \"http://h\", api_key_env: K, headers: {}, idle_timeout_ms: 1 }
      - { id: q, adapter: ollama, capacity: 1, words: 1, word_interval_ms: 1 }
      - { id: r, adapter: vllm, capacity: 1, words: 0, endpoint: \"ftp://h\" }
",
        issues: &[
            "5:46: nodes[0].providers[0].endpoint: found a key that this adapter does not have, expected it with the adapters openai and ollama only",
            "5:68: nodes[0].providers[0].api_key_env: found a key that this adapter does not have, expected it with the adapters openai and ollama only",
            "5:84: nodes[0].providers[0].headers: found a key that this adapter does not have, expected it with the adapters openai and ollama only",
            "5:97: nodes[0].providers[0].idle_timeout_ms: found a key that this adapter does not have, expected it with the adapters openai and ollama only",
            "6:9: nodes[0].providers[1].endpoint: found nothing, expected an http:// or https:// URL without user, query and fragment, like http://127.0.0.1:8081",
            "6:48: nodes[0].providers[1].words: found a key that this adapter does not have, expected it with the adapter echo only",
            "6:58: nodes[0].providers[1].word_interval_ms: found a key that this adapter does not have, expected it with the adapter echo only",
            "7:27: nodes[0].providers[2].adapter: found `vllm`, expected one of openai, ollama, echo",
            "7:53: nodes[0].providers[2].words: found `0`, expected an integer from 1 to 1000000",
            "7:66: nodes[0].providers[2].endpoint: found the text \"ftp://h\", expected an http:// or https:// URL without user, query and fragment, like http://127.0.0.1:8081",
        ],
    }];
    assert_issues(&cases, edge);
}

#[test]
fn headers_are_checked_one_by_one() {
    let cases = [Case {
        text: "\
certs: { dir: pki }
nodes:
  - id: a
    providers:
      - id: p
        adapter: openai
        endpoint: http://h
        capacity: 1
        api_key_env: KEY
        headers:
          Host: h
          a b: x
          X-One: [1]
          X-Two:
          x-three: 1
          X-Three: 2
          X-Four: \"top\\nsecret\"
          Authorization: Bearer top-secret
",
        issues: &[
            "11:11: nodes[0].providers[0].headers.Host: found the header `host`, expected no header that belongs to the connection or the request itself",
            "12:11: nodes[0].providers[0].headers.\"a b\": found the header name `a b`, expected 1 to 128 letters, digits and -, as HTTP allows",
            "13:18: nodes[0].providers[0].headers.X-One: found a list, expected at most 4096 visible ASCII characters, spaces only between them",
            "14:11: nodes[0].providers[0].headers.X-Two: found nothing, expected at most 4096 visible ASCII characters, spaces only between them",
            "16:11: nodes[0].providers[0].headers.X-Three: found the header a second time, expected each header once",
            "17:19: nodes[0].providers[0].headers.X-Four: found a value that is not shown here, expected at most 4096 visible ASCII characters, spaces only between them",
            "18:11: nodes[0].providers[0].headers.Authorization: found `authorization` beside `api_key_env`, expected one of them",
        ],
    }];
    assert_issues(&cases, edge);
}

/// [node-connectivity-supervision]
#[test]
fn unlimited_reconnecting_needs_a_pause() {
    let text = |reconnect: &str| {
        format!("edge: {{ addresses: [\"h:1\"] }}\ncerts: {{ bundle: b }}\nreconnect: {reconnect}\n")
    };
    let expected = "3:45: reconnect.interval_sec: found `0`, expected at least 1 while `max_attempts` is 0, which is unlimited";
    assert_eq!(lines(node(&text("{ max_attempts: 0, interval_sec: 0 }"))), [expected]);
    for good in [
        "{ max_attempts: 0, interval_sec: 1 }",
        "{ max_attempts: 3, interval_sec: 0 }",
        "{ interval_sec: 0 }",
    ] {
        assert_eq!(lines(node(&text(good))), Vec::<String>::new(), "{good}");
    }
}

#[test]
fn a_file_of_the_other_kind_is_one_issue() {
    let node_text = "edge: { addresses: [\"h:1\"] }\ncerts: { bundle: b }\n";
    let edge_text = "# an edge\ncerts: { dir: pki }\nnodes: []\n";
    assert_eq!(
        lines(edge(node_text)),
        ["1:1: found a node's file (it has `edge`), expected the edge's file"]
    );
    assert_eq!(
        lines(node(edge_text)),
        ["3:1: found the edge's file (it has `nodes`), expected a node's file"]
    );
}
