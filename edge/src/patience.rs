//! How long a run waits for its node. A node holds its inference server to the provider's timeouts; these limits are the
//! edge's own, for a node that does not. An honest one never comes near them.

use iop_config::Adapter;
use iop_transport::tunnel::Patience;
use std::time::Duration;

/// What an honest node may take beyond the provider's timeouts: to end an answer whose last line has come, to read what a
/// server says of a refusal, to put large vectors into events, all that on a busy machine.
const NODE_WORK: Duration = Duration::from_secs(10);

/// The slowest way to an inference server that is reckoned with, for one request among others.
const REQUEST_BYTES_PER_SEC: u64 = 16 << 10;

/// Most of a request that is still on its way when the edge has written all of it: what QUIC, the node and the sockets hold.
const REQUEST_BYTES_HELD: u64 = 2 << 20;

/// The patience with a provider's node. `quic_idle` is how long the network may be silent without ending a connection, and
/// so how late an answer may come over one that stands.
pub(crate) fn with(adapter: &Adapter, quic_idle: Duration) -> Patience {
    let (reply, idle) = match adapter {
        Adapter::OpenAi(upstream) => {
            (upstream.connect_timeout + upstream.first_byte_timeout, upstream.idle_timeout)
        }
        // Its run has begun with the first event, and that comes after the first byte.
        Adapter::Ollama(upstream) => (
            upstream.connect_timeout + upstream.first_byte_timeout + upstream.idle_timeout,
            upstream.idle_timeout,
        ),
        Adapter::Echo { word_interval, .. } => (*word_interval, *word_interval),
    };
    let margin = quic_idle + NODE_WORK;
    Patience { reply: reply + margin, idle: idle + margin }
}

/// The same for a request of so many bytes, the last of which may be on their way for a while.
pub(crate) fn for_request(patience: Patience, bytes: u64) -> Patience {
    let held = bytes.min(REQUEST_BYTES_HELD);
    let on_its_way = Duration::from_millis(held * 1000 / REQUEST_BYTES_PER_SEC);
    Patience { reply: patience.reply + on_its_way, ..patience }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iop_config::EdgeConfig;
    use serde_json::json;

    /// The patience with a provider of these settings, behind a connection that may be silent for 7 s.
    fn patience(mut provider: serde_json::Value) -> Patience {
        provider["id"] = json!("p");
        provider["capacity"] = json!(1);
        let file = json!({
            "quic": {"listen": "127.0.0.1:0", "idle_timeout_ms": 7000},
            "http": {"listen": "127.0.0.1:0"},
            "admin": {"listen": "127.0.0.1:0"},
            "certs": {"dir": "pki"},
            "nodes": [{"id": "n", "providers": [provider]}],
            "models": [{"id": "m", "candidates": [{"node": "n", "provider": "p"}]}],
        });
        let config = EdgeConfig::parse(&file.to_string(), "edge.yaml".as_ref(), &|_name| None);
        let targets = crate::settings::targets(&config.expect("a good file"));
        targets.values().next().expect("a target").patience
    }

    fn seconds(reply: u64, idle: u64) -> Patience {
        Patience { reply: Duration::from_secs(reply), idle: Duration::from_secs(idle) }
    }

    #[test]
    fn a_node_is_given_its_servers_timeouts_and_what_the_network_and_the_node_may_take() {
        let server = |adapter: &str| {
            json!({
                "adapter": adapter,
                "endpoint": "http://127.0.0.1:9",
                "connect_timeout_ms": 1000,
                "first_byte_timeout_ms": 100_000,
                "idle_timeout_ms": 20_000,
            })
        };
        assert_eq!(patience(server("openai")), seconds(1 + 100 + 17, 20 + 17));
        assert_eq!(patience(server("ollama")), seconds(1 + 100 + 20 + 17, 20 + 17));
        assert_eq!(patience(json!({"adapter": "echo", "word_interval_ms": 3000})), seconds(3 + 17, 3 + 17));
    }

    // [contract-spec-sync]
    #[test]
    fn the_numbers_of_the_contract_are_these() {
        let contract = include_str!("../../config/CONTRACT.md");
        let chapter = contract.split_once("### How long a run may be silent").expect("it is described").1;
        let text = chapter.split_whitespace().collect::<Vec<_>>().join(" ");
        for number in [
            format!("connection, + {} s, for", NODE_WORK.as_secs()),
            format!("1 s is added for each {} KiB of a request", REQUEST_BYTES_PER_SEC >> 10),
            format!("up to {} KiB of it", REQUEST_BYTES_HELD >> 10),
        ] {
            assert!(text.contains(&number), "{number}");
        }
    }

    #[test]
    fn a_large_request_is_given_the_time_that_its_last_bytes_may_be_on_their_way() {
        let patience = seconds(10, 20);
        assert_eq!(for_request(patience, 0), patience);
        assert_eq!(for_request(patience, 16 << 10), seconds(11, 20));
        assert_eq!(for_request(patience, 2 << 20), seconds(10 + 128, 20));
        assert_eq!(
            for_request(patience, u64::MAX),
            seconds(10 + 128, 20),
            "what is not on its way yet is waited for"
        );
    }
}
