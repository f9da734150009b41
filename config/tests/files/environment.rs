//! Clients' keys: where they come from, and that they are never shown.

use std::path::Path;

use iop_config::{EdgeConfig, Environment, Kind, LoadError, check_text};

use crate::{edge, lines};

fn keys(list: &str) -> String {
    format!("certs: {{ dir: pki }}\nauth: {{ keys: [ {list} ] }}\n")
}

#[test]
fn a_key_comes_from_the_file_or_from_the_variable_it_names() {
    let config = edge(&keys(
        "{ name: alice, key_env: ALICE_KEY }, { name: bob, key: 12345, max_in_flight: 2, max_queued: 0 }",
    ))
    .expect("both keys are there");
    let [alice, bob] = config.auth.keys.as_slice() else { panic!("there are two keys: {config:?}") };
    assert_eq!((alice.name.as_str(), alice.key.expose()), ("alice", "alice-secret"));
    assert_eq!((alice.max_in_flight, alice.max_queued), (None, None));
    assert_eq!((bob.name.as_str(), bob.key.expose()), ("bob", "12345"));
    assert_eq!((bob.max_in_flight.map(u32::from), bob.max_queued), (Some(2), Some(0)));
}

#[test]
fn wrong_keys_are_reported_without_showing_them() {
    let text = keys(
        "{ name: a, key: \"top secret\" }, { name: a, key: k1 }, { name: b, key: k2, key_env: K }, { name: c }, \
         { name: d, key: k3 }, { name: e, key: k3 }, { name: f, key_env: top-secret }, { name: g, key: [top-secret] }",
    );
    let expected = [
        "2:33: auth.keys[0].key: found a value that is not shown here, expected 1 to 4096 visible ASCII characters without spaces",
        "2:57: auth.keys[1].name: found `a` a second time, first in line 2, expected each once",
        "2:87: auth.keys[2].key: found `key` beside `key_env`, expected one of them",
        "2:105: auth.keys[3].key_env: found nothing, expected `key_env` or `key`",
        "2:156: auth.keys[5].key: found the same key as `d` has, expected a key of its own",
        "2:182: auth.keys[6].key_env: found a value that is not shown here, expected the name of an environment variable: letters, digits and _, not beginning with a digit",
        "2:212: auth.keys[7].key: found a list, expected 1 to 4096 visible ASCII characters without spaces",
    ];
    assert_eq!(lines(edge(&text)), expected);
}

#[test]
fn a_variable_that_holds_no_key_is_named() {
    let text = keys("{ name: a, key_env: UNSET }, { name: b, key_env: EMPTY }, { name: c, key_env: SPACED }");
    let lookup = |name: &str| match name {
        "EMPTY" => Some(String::new()),
        "SPACED" => Some("top secret\n".to_owned()),
        _ => None,
    };
    let expected = [
        "2:37: auth.keys[0].key_env: found the environment variable `UNSET`, which is not set, expected it to hold 1 to 4096 visible ASCII characters without spaces",
        "2:66: auth.keys[1].key_env: found the environment variable `EMPTY`, which is empty, expected it to hold 1 to 4096 visible ASCII characters without spaces",
        "2:95: auth.keys[2].key_env: found the environment variable `SPACED`, whose value cannot be a key, expected it to hold 1 to 4096 visible ASCII characters without spaces",
    ];
    assert_eq!(lines(EdgeConfig::parse(&text, Path::new("edge.yaml"), &lookup)), expected);
}

#[test]
fn a_file_for_another_machine_is_checked_without_its_variables() {
    let text = keys("{ name: a, key_env: ON_ANOTHER_MACHINE }");
    let origin = Path::new("edge.yaml");
    assert_eq!(check_text(&text, origin, Environment::Unchecked), Ok(Kind::Edge));
    assert_eq!(lines(check_text(&text, origin, Environment::Lookup(&|_| None))).len(), 1);

    let wrong = text.replace("name: a", "name: \"a b\"");
    assert_eq!(
        lines(check_text(&wrong, origin, Environment::Unchecked)).len(),
        1,
        "everything else is checked"
    );
}

#[test]
fn a_check_finds_out_the_kind_of_a_file() {
    let origin = Path::new("file.yaml");
    let kind = |text: &str| check_text(text, origin, Environment::Unchecked);
    assert_eq!(kind("certs: { dir: pki }\nmodels: []\n"), Ok(Kind::Edge));
    assert_eq!(kind("certs: { bundle: b }\nedge: { addresses: [\"h:1\"] }\n"), Ok(Kind::Node));

    let mixed = lines(kind("certs: { dir: pki }\nnodes: []\nmodels: []\nedge: { addresses: [\"h:1\"] }\n"));
    assert_eq!(mixed, ["4:1: edge: found an unknown key, expected it in a node's file, at the top level"]);

    let neither = "one of `quic`, `http`, `admin`, `auth`, `provider_pool`, `nodes`, `models` for an edge, or of `edge`, \
                   `reconnect`, `keep_alive_ms`, `allow_endpoints`, `segmentation_offload` for a node";
    for (text, found) in [
        ("", "an empty file"),
        ("# nothing\n", "an empty file"),
        ("certs: { dir: pki }\n", "a file that is neither the edge's nor a node's"),
        ("- 1\n", "a file that is neither the edge's nor a node's"),
    ] {
        assert_eq!(lines(kind(text)), [format!("1:1: found {found}, expected {neither}")], "of {text:?}");
    }
}

#[test]
fn a_secret_shows_neither_in_debug_output_nor_in_an_error() {
    let text = "certs: { dir: pki }\nauth: { keys: [ { name: a, key: top-secret } ] }\nnodes: [ { id: a, providers: [ { id: p, adapter: openai, endpoint: \"http://h\", capacity: 1, headers: { x-key: top-secret } } ] } ]\n";
    let config = edge(text).expect("the file is good");
    let shown = format!("{config:?}");
    assert!(!shown.contains("top-secret") && shown.contains("Secret(***)"), "{shown}");

    let url = "certs: { dir: pki }\nnodes: [ { id: a, providers: [ { id: p, adapter: openai, endpoint: \"http://bob:top-secret@h\", capacity: 1 } ] } ]\n";
    let reported = lines(edge(url));
    assert_eq!(reported.len(), 1, "{reported:#?}");
    assert!(reported[0].contains("found a URL with a user part, not shown here"), "{reported:#?}");
}

#[test]
fn a_file_that_cannot_be_read_says_which_and_why() {
    let error = EdgeConfig::load(Path::new("/nowhere/edge.yaml")).expect_err("there is no such file");
    assert!(matches!(error, LoadError::Read { .. }), "{error:?}");
    let message = error.to_string();
    assert!(message.starts_with("cannot read the configuration file /nowhere/edge.yaml: "), "{message}");
}
