//! Networks that lose, delay, reorder, double and shrink packets. Nobody may notice but by the time it takes.

use crate::namespaces::{EDGE, MIDDLE, PORT, Side};
use crate::relay::Relay;
use crate::site::{Site, in_namespaces};

/// Of the delays. The losses are the kernel's dice.
const SEED: u64 = 0x1057_0001;

#[test]
fn five_percent_loss_both_ways_with_delay_reordering_and_doubled_packets_break_nothing() {
    in_namespaces(async |network| {
        println!("seed {SEED:#x}");
        let relay = Relay::start(network, SEED);
        for device in ["n0", "n1"] {
            network.rules(
                Side::Middle,
                &format!(
                    "add table netdev loss{device}; \
                     add chain netdev loss{device} in {{ type filter hook ingress device {device} priority 0; }}; \
                     add rule netdev loss{device} in meta l4proto udp numgen random mod 100 < 5 counter drop"
                ),
            );
        }
        network.rules(
            Side::Middle,
            &format!(
                "add table netdev double; \
                 add chain netdev double out {{ type filter hook egress device n1 priority 0; }}; \
                 add rule netdev double out udp dport {PORT} numgen random mod 100 < 3 counter dup to n1"
            ),
        );
        let site = Site::start(network, MIDDLE, |plan, _| plan).await.with_pieces_of(2048);
        let (_node, load) = site.under_load().await;
        load.wait_complete(8).await;
        let node = site.node().await;
        assert_eq!((&node["connected"], &node["generation"]), (&true.into(), &1.into()));
        let (counts, overtaken) = (network.counted(Side::Middle), relay.overtaken());
        println!("measured: packets lost on each side and doubled {counts:?}, overtaken {overtaken}");
        assert!(counts.len() == 3 && counts.iter().all(|count| *count > 0), "{counts:?}");
        assert!(overtaken > 0, "packets were reordered");
        assert!(node["rtt_ms"].as_f64().is_some_and(|rtt| rtt > 150.0), "the relay delays: {node}");
        let tally = site.finish(load).await;
        assert_eq!((tally.broken, tally.refused), (0, 0), "{tally:?}");
        drop(relay);
    });
}

#[test]
fn a_path_of_1280_bytes_carries_everything() {
    in_namespaces(async |network| {
        for (side, device) in
            [(Side::Node, "c0"), (Side::Middle, "n0"), (Side::Middle, "n1"), (Side::Edge, "s0")]
        {
            network.shell(side, &format!("ip link set {device} mtu 1280"));
        }
        let site = Site::start(network, EDGE, |plan, _| plan).await;
        let (_node, load) = site.under_load().await;
        load.wait_complete(8).await;
        let tally = site.finish(load).await;
        assert_eq!((tally.broken, tally.refused), (0, 0), "{tally:?}");
    });
}

#[test]
fn a_path_that_shrinks_to_1280_bytes_while_answers_stream_breaks_none_of_them() {
    in_namespaces(async |network| {
        let site = Site::start(network, EDGE, |plan, _| plan).await;
        let (_node, load) = site.under_load().await;
        // Only behind the middle, and the node never hears of it: the worst kind.
        network.rules(
            Side::Middle,
            "add table ip deaf; add chain ip deaf output { type filter hook output priority 0; }; \
             add rule ip deaf output meta l4proto icmp counter drop",
        );
        network.shell(Side::Middle, "ip link set n1 mtu 1280");
        network.shell(Side::Edge, "ip link set s0 mtu 1280");
        load.wait_complete(8).await;
        let counts = network.counted(Side::Middle);
        assert!(counts.iter().sum::<u64>() > 0, "larger packets met the small link: {counts:?}");
        let node = site.node().await;
        assert_eq!((&node["connected"], &node["generation"]), (&true.into(), &1.into()));
        let tally = site.finish(load).await;
        assert_eq!((tally.broken, tally.refused), (0, 0), "{tally:?}");
    });
}
