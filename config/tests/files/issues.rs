//! Issues of single settings and of the form of a file: text in, every line of the report out.

use crate::{Case, assert_issues, edge, lines, node};

#[test]
fn every_wrong_value_of_an_edge_file_is_reported_with_its_place() {
    let cases = [
        Case {
            text: "certs: { dir: pki }\nquic: { listen: \"localhost:7443\", idle_timeout_ms: 4999, segmentation_offload: yes }\n",
            issues: &[
                "2:17: quic.listen: found the text \"localhost:7443\", expected an IP address and port, like 127.0.0.1:8080 or \"[::]:7443\"",
                "2:52: quic.idle_timeout_ms: found `4999`, expected an integer from 5000 to 60000",
                "2:80: quic.segmentation_offload: found `yes`, expected true or false",
            ],
        },
        Case {
            text: "admin: 9090\ncerts:\n  dir: [pki]\nhttp:\n  max_body_bytes: 64MiB\n  cors_origins: [\"https://a.example\", \"https://b.example/\"]\n",
            issues: &[
                "1:8: admin: found `9090`, expected a mapping (`name: value`)",
                "3:8: certs.dir: found a list, expected the path of a folder",
                "5:19: http.max_body_bytes: found `64MiB`, expected an integer from 1 to 17179869184",
                "6:39: http.cors_origins[1]: found the text \"https://b.example/\", expected an origin as browsers send it, like https://chat.example.com: lower case, no path, no default port",
            ],
        },
        Case {
            text: "certs: { dir: pki }\nprovider_pool:\n  max_queue: 1.5\n  queue_timeout_ms: 0\n  max_attempts: 11\n",
            issues: &[
                "3:14: provider_pool.max_queue: found `1.5`, expected an integer from 0 to 1000000",
                "4:21: provider_pool.queue_timeout_ms: found `0`, expected an integer from 1 to 86400000",
                "5:17: provider_pool.max_attempts: found `11`, expected an integer from 1 to 10",
            ],
        },
        Case {
            text: "certs: { dir: pki }\nnodes:\n  - id: GPU-A\n  - id: gpu-b\n    providers:\n      - { id: \"a b\", adapter: opena, capacity: \"4\", priority: high, enabled: 1 }\n",
            issues: &[
                "3:9: nodes[0].id: found `GPU-A`, expected 1 to 63 of the characters a-z, 0-9 and -",
                "6:15: nodes[1].providers[0].id: found the text \"a b\", expected 1 to 63 of the characters a-z, 0-9, -, _ and .",
                "6:31: nodes[1].providers[0].adapter: found `opena`, expected one of openai, ollama, echo",
                "6:48: nodes[1].providers[0].capacity: found the text \"4\", expected an integer from 1 to 4096",
                "6:63: nodes[1].providers[0].priority: found `high`, expected an integer from -2147483648 to 2147483647",
                "6:78: nodes[1].providers[0].enabled: found `1`, expected true or false",
            ],
        },
        Case {
            text: "certs: { dir: pki }\nmodels:\n  - id: \"\"\n    context_length: 0\n  - 7\n",
            issues: &[
                "3:5: models[0].candidates: found nothing, expected at least one candidate",
                "3:9: models[0].id: found the text \"\", expected 1 to 256 bytes of printable text without spaces at its ends",
                "4:21: models[0].context_length: found `0`, expected an integer from 1 to 1000000000",
                "5:5: models[1]: found `7`, expected a mapping (`name: value`)",
            ],
        },
    ];
    assert_issues(&cases, edge);
}

#[test]
fn every_wrong_value_of_a_node_file_is_reported_with_its_place() {
    let cases = [
        Case {
            text: "edge: { addresses: [\"h\", \"h:0\", \"1.2.3:4\", \"[::1]:7\"], server_name: \"192.0.2.1\" }\ncerts: { bundle: ~ }\n",
            issues: &[
                "1:21: edge.addresses[0]: found the text \"h\", expected host:port, like edge.example.com:7443, 192.0.2.7:7443 or [2001:db8::7]:7443",
                "1:26: edge.addresses[1]: found the text \"h:0\", expected host:port, like edge.example.com:7443, 192.0.2.7:7443 or [2001:db8::7]:7443",
                "1:33: edge.addresses[2]: found the text \"1.2.3:4\", expected host:port, like edge.example.com:7443, 192.0.2.7:7443 or [2001:db8::7]:7443",
                "1:69: edge.server_name: found the text \"192.0.2.1\", expected a DNS name in lower case",
                "2:10: certs.bundle: found nothing, expected the path of a file",
            ],
        },
        Case {
            text: "edge: { addresses: [] }\ncerts: { bundle: b }\nreconnect: { max_attempts: -1, interval_sec: 1.5 }\nkeep_alive_ms: 499\nallow_endpoints: [\"127.0.0.1:*\"]\n",
            issues: &[
                "1:20: edge.addresses: found an empty list, expected a list of 1 to 64 addresses, each of them host:port, like edge.example.com:7443, 192.0.2.7:7443 or [2001:db8::7]:7443",
                "3:28: reconnect.max_attempts: found `-1`, expected an integer from 0 to 4294967295",
                "3:46: reconnect.interval_sec: found `1.5`, expected an integer from 0 to 86400",
                "4:16: keep_alive_ms: found `499`, expected an integer from 500 to 20000",
                "5:19: allow_endpoints[0]: found the text \"127.0.0.1:*\", expected http:// or https://, a host or `*`, and a port, `:*` or none, like http://127.0.0.1:*",
            ],
        },
    ];
    assert_issues(&cases, node);
}

#[test]
fn a_missing_setting_is_reported_where_its_section_begins() {
    let cases = [
        Case {
            text: "# nothing of it\nquic:\n",
            issues: &["2:1: certs.dir: found nothing, expected the path of a folder"],
        },
        Case {
            text: "certs: {}\nnodes:\n  - providers:\n      - adapter: openai\n      -\n",
            issues: &[
                "1:1: certs.dir: found nothing, expected the path of a folder",
                "3:5: nodes[0].id: found nothing, expected 1 to 63 of the characters a-z, 0-9 and -",
                "4:9: nodes[0].providers[0].id: found nothing, expected 1 to 63 of the characters a-z, 0-9, -, _ and .",
                "4:9: nodes[0].providers[0].endpoint: found nothing, expected an http:// or https:// URL without user, query and fragment, like http://127.0.0.1:8081",
                "4:9: nodes[0].providers[0].capacity: found nothing, expected an integer from 1 to 4096",
                "5:8: nodes[0].providers[1].id: found nothing, expected 1 to 63 of the characters a-z, 0-9, -, _ and .",
                "5:8: nodes[0].providers[1].adapter: found nothing, expected one of openai, ollama, echo",
                "5:8: nodes[0].providers[1].capacity: found nothing, expected an integer from 1 to 4096",
            ],
        },
    ];
    assert_issues(&cases, edge);
}

#[test]
fn what_yaml_offers_beyond_plain_values_is_refused() {
    let cases = [
        Case {
            text: "certs: &a { dir: pki }\nhttp: *a\nadmin:\n  listen: !!str \"127.0.0.1:1\"\n  listen: \"127.0.0.1:2\"\nquic: *missing\n",
            issues: &[
                "1:8: certs: found an anchor (`&name`), expected a value written out, without anchors and aliases",
                "2:7: http: found an alias (`*name`), expected a value written out, without anchors and aliases",
                "4:11: admin.listen: found the tag `!!str`, expected a value without a tag",
                "5:3: admin.listen: found the key a second time, first in line 4, expected each key once",
                "6:7: quic: found an alias (`*name`), expected a value written out, without anchors and aliases",
            ],
        },
        Case {
            text: "certs: { dir: pki }\n? [a]\n: 1\n? { b: 1 }\n: 1\n~: 2\n---\nnodes: []\n",
            issues: &[
                "2:3: found a list as a key, expected the name of a setting",
                "4:3: found a mapping as a key, expected the name of a setting",
                "6:1: found nothing as a key, expected the name of a setting",
                "7:1: found a second document, expected one document in a file",
            ],
        },
        Case {
            text: "%YAML 1.2\n---\ncerts: { dir: pki }\n",
            issues: &["1:1: found a YAML directive (`%`), expected a file without directives"],
        },
    ];
    assert_issues(&cases, edge);
}

#[test]
fn broken_yaml_is_reported_with_everything_found_before_it() {
    let cases = [Case {
        text: "certs: { dir: pki, dir: pki }\nquic: { listen: [::]:7443 }\n",
        issues: &[
            "1:20: certs.dir: found the key a second time, first in line 1, expected each key once",
            "2:21: quic: found broken YAML (while parsing a flow mapping, did not find expected ',' or '}'), expected well-formed YAML; text with `[ ] { } # & * ! |` or `: ` needs quotes",
        ],
    }];
    assert_issues(&cases, edge);
}

#[test]
fn a_refused_value_is_not_reported_a_second_time_for_its_type() {
    let text = "certs: { dir: !x pki }\nnodes: !y [ !z { id: a } ]\nmodels: *m\n";
    let reported = lines(edge(text));
    assert_eq!(reported.len(), 4, "{reported:#?}");
    assert!(reported.iter().all(|line| line.contains("tag") || line.contains("alias")), "{reported:#?}");
}

#[test]
fn an_issue_is_one_line_with_the_name_of_the_file_whatever_stands_in_it() {
    let issues = edge("certs: { dir: pki }\nquic: { listen: \"a\\nb\\e\" }\n\"x\\ny\": 1\n")
        .expect_err("both are wrong");
    let expected = [
        "/etc/iop/edge.yaml:2:17: quic.listen: found the text \"a\\nb\\u{1b}\", expected an IP address and port, like 127.0.0.1:8080 or \"[::]:7443\"",
        "/etc/iop/edge.yaml:3:1: \"x\\ny\": found an unknown key, expected one of `quic`, `http`, `admin`, `certs`, `auth`, `provider_pool`, `nodes`, `models`",
    ];
    assert_eq!(issues.to_string(), expected.join("\n"));
}

#[test]
fn a_column_counts_characters_and_a_byte_order_mark_none() {
    let reported =
        lines(edge("\u{feff}certs: { dir: pki }\nmodels: [ { id: 'größe', candidates: [ 7 ] } ]\n"));
    assert_eq!(reported, ["2:40: models[0].candidates[0]: found `7`, expected a mapping (`name: value`)"]);
}

#[test]
fn issues_serialize_for_an_api() {
    let issues = edge("certs: { dir: [] }").expect_err("the folder is wrong");
    let json = serde_json::to_value(&issues).expect("issues are plain data");
    let expected = serde_json::json!({
        "file": "/etc/iop/edge.yaml",
        "issues": [{
            "line": 1, "column": 15, "path": "certs.dir",
            "found": "a list", "expected": "the path of a folder",
        }],
        "omitted": 0,
    });
    assert_eq!(json, expected);
}
