//! Whatever bytes a file has, it compiles or is refused with issues; nothing panics.

use std::path::Path;

use iop_config::{
    Address, EdgeConfig, Endpoint, EndpointPattern, Environment, Issues, NodeConfig, check_text, difference,
};
use proptest::prelude::*;

const EXAMPLES: &[&str] = &[
    include_str!("../../examples/edge.yaml"),
    include_str!("../../examples/edge-two-nodes.yaml"),
    include_str!("../../examples/node.yaml"),
];

/// Bits of YAML and of our own files, of which random texts get further than random letters do.
const BITS: &[&str] = &[
    ":",
    ": ",
    "-",
    "- ",
    "\n",
    "\n  ",
    "\n    ",
    "{",
    "}",
    "[",
    "]",
    ",",
    "\"",
    "'",
    "|",
    ">",
    "&a",
    "*a",
    "!!int",
    "!",
    "?",
    "%",
    "#",
    "---",
    "...",
    "~",
    "\t",
    "\u{feff}",
    "é",
    "\0",
    "\\",
    "<<",
    "0",
    "-1",
    "99999999999999999999",
    "1e9",
    "true",
    "null",
    "quic",
    "http",
    "certs",
    "dir",
    "nodes",
    "id",
    "providers",
    "models",
    "candidates",
    "node",
    "provider",
    "endpoint",
    "http://",
    "adapter",
    "echo",
    "openai",
    "capacity",
    "long_context_capacity",
    "total_context_tokens",
    "auth",
    "keys",
    "key",
    "key_env",
    "edge",
    "addresses",
    "reconnect",
    "max_attempts",
    "headers",
    "max_queue",
    "listen",
    "cors_origins",
    "allow_endpoints",
];

fn text_of_bits() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(BITS), 0..60).prop_map(|bits| bits.concat())
}

/// An example with some of its bytes replaced, cut out or doubled.
fn mutated_example() -> impl Strategy<Value = String> {
    let edit = (any::<prop::sample::Index>(), 0..40_usize, prop::sample::select(BITS), any::<bool>());
    (prop::sample::select(EXAMPLES), prop::collection::vec(edit, 1..5)).prop_map(|(example, edits)| {
        let mut bytes = example.as_bytes().to_vec();
        for (place, length, bit, double) in edits {
            let start = place.index(bytes.len() + 1);
            let end = (start + length).min(bytes.len());
            let mut middle = bytes[start..end].to_vec();
            middle = if double { middle.repeat(2) } else { bit.as_bytes().to_vec() };
            bytes.splice(start..end, middle);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn assert_shown(issues: &Issues) {
    assert!(issues.total() > 0, "a refusal has a reason");
    assert!(issues.to_string().lines().count() >= issues.iter().count());
    assert!(issues.iter().is_sorted_by_key(|issue| issue.position));
}

fn compile_all(text: &str) {
    let origin = Path::new("file.yaml");
    let lookup = |name: &str| (!name.contains('_')).then(|| name.to_owned());
    match EdgeConfig::parse(text, origin, &lookup) {
        Ok(config) => {
            assert!(difference(&config, &config).is_empty());
            assert!(difference(&config.before_first_load(), &config).restart.is_empty());
        }
        Err(issues) => assert_shown(&issues),
    }
    if let Err(issues) = NodeConfig::parse(text, origin) {
        assert_shown(&issues);
    }
    for environment in [Environment::Lookup(&lookup), Environment::Unchecked] {
        if let Err(issues) = check_text(text, origin, environment) {
            assert_shown(&issues);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bytes_of_any_kind_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        compile_all(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn bits_of_yaml_in_any_order_are_answered(text in text_of_bits()) {
        compile_all(&text);
    }

    #[test]
    fn damaged_examples_are_answered(text in mutated_example()) {
        compile_all(&text);
    }

    #[test]
    fn what_reads_as_an_endpoint_reads_back_as_it_is_shown(text in "(http|https|HTTP)://[a-z0-9.:\\[\\]*@-]{0,12}[/a-z%.?#0-9]{0,6}") {
        if let Ok(endpoint) = text.parse::<Endpoint>() {
            prop_assert_eq!(endpoint.to_string().parse(), Ok(endpoint));
        }
        if let Ok(pattern) = text.parse::<EndpointPattern>() {
            prop_assert_eq!(pattern.to_string().parse(), Ok(pattern));
        }
        if let Some(Ok(address)) = text.split_once("//").map(|(_, rest)| rest.parse::<Address>()) {
            prop_assert_eq!(address.to_string().parse(), Ok(address));
        }
    }
}

#[test]
fn the_examples_that_are_mutated_are_good_files() {
    for example in EXAMPLES {
        let checked = check_text(example, Path::new("file.yaml"), Environment::Unchecked);
        assert!(checked.is_ok(), "{checked:?}");
    }
}
