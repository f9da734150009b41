//! Nodes whose address changes while answers stream: by a NAT that forgets them, and by a network that is another one.

use crate::namespaces::{EDGE, MIDDLE, NODE, Network, OUTSIDE, Side};
use crate::site::{Site, figure, in_namespaces};
use serde_json::Value;
use std::time::Instant;

/// How often the address changes.
const CHANGES: usize = 3;

fn address(node: &Value) -> String {
    let address = node["address"].as_str().expect("a connected node has an address");
    address.trim_start_matches("[::ffff:").replace("]:", ":")
}

/// The same registration throughout, and nothing broken or refused.
async fn finish(site: Site<'_>, load: crate::load::Load) {
    let node = site.node().await;
    assert_eq!((&node["connected"], &node["generation"]), (&true.into(), &1.into()));
    let tally = site.finish(load).await;
    assert_eq!((tally.broken, tally.refused), (0, 0), "{tally:?}");
}

#[test]
fn a_nat_that_rebinds_the_port_while_answers_stream_breaks_none_of_them() {
    in_namespaces(async |network| {
        network.rules(
            Side::Middle,
            "add table ip nat; add chain ip nat post { type nat hook postrouting priority 100; }; \
             add rule ip nat post oifname n1 masquerade random",
        );
        let site = Site::start(network, EDGE, |plan, _| plan).await;
        let (_node, load) = site.under_load().await;
        for _ in 0..CHANGES {
            let before = address(&site.node().await);
            assert!(before.starts_with(OUTSIDE), "behind the NAT: {before}");
            let rebound = Instant::now();
            network.shell(Side::Middle, "conntrack -D -p udp");
            let seen = site.wait_node("another port of the NAT", |node| address(node) != before).await;
            figure("NAT forgets the node: until the edge has its new port", seen - rebound);
            load.wait_complete(2).await;
        }
        finish(site, load).await;
    });
}

/// Gives the node another address in place of the one it has.
fn replace_address(network: &Network, old: &str, new: &str) {
    network.shell(
        Side::Node,
        &format!(
            "ip address add {new}/24 dev c0; ip address delete {old}/24 dev c0; \
             ip route replace default via {MIDDLE}"
        ),
    );
}

#[test]
fn a_node_whose_address_is_replaced_while_answers_stream_keeps_its_connection_and_its_runs() {
    in_namespaces(async |network| {
        let site = Site::start(network, EDGE, |plan, _| plan).await;
        let (_node, load) = site.under_load().await;
        let mut old = NODE.to_owned();
        for change in 0..CHANGES {
            assert!(address(&site.node().await).starts_with(&old));
            let new = format!("10.98.1.{}", 100 + change);
            let replaced = Instant::now();
            replace_address(network, &old, &new);
            let seen = site.wait_node("the new address", |node| address(node).starts_with(&new)).await;
            figure("the node's address is replaced: until the edge has the new one", seen - replaced);
            load.wait_complete(2).await;
            old = new;
        }
        finish(site, load).await;
    });
}
