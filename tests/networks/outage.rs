//! Networks that carry nothing for a while: longer than the idle timeout, and longer than a bounded policy has patience.

use crate::namespaces::{EDGE, PORT, Side};
use crate::site::{DEADLINE, GPU, IDLE, IOP, Site, figure, in_namespaces};
use iop_tests::deadline::wait_until;
use iop_tests::process::{Process, Program};
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long the black hole lasts.
const HOLE: Duration = Duration::from_secs(8);

/// Waits until the program has said this so many times, and checks that it has not said it more often.
async fn wait_said(program: &Process, words: &str, count: usize) {
    let said = wait_until(words, DEADLINE, || {
        let lines = program.stderr();
        let said = lines.iter().filter(|line| line.contains(words)).count();
        if said >= count { Ok(said) } else { Err(lines) }
    });
    assert_eq!(said.await, count, "{words}: {:#?}", program.stderr());
}

// [disconnect-queue-resolution] [reconnect-candidate-recovery]
#[test]
fn a_black_hole_longer_than_the_idle_timeout_costs_the_runs_in_it_and_nothing_after_it() {
    in_namespaces(async |network| {
        let site = Site::start(network, EDGE, |plan, _| plan).await;
        let (node, load) = site.under_load().await;
        let begun = Instant::now();
        network.cut();
        let gone = site.wait_node("the node offline", |node| node["connected"] == false).await;
        figure("black hole, idle timeout 5 s: until the node is fenced", gone - begun);
        assert!(gone - begun <= IDLE + Duration::from_secs(1), "{:?}", gone - begun);
        let refused = load.tally().refused;
        wait_until("a refusal for want of the node", DEADLINE, || match load.tally().refused {
            count if count > refused => Ok(()),
            count => Err(count),
        })
        .await;
        tokio::time::sleep(HOLE.saturating_sub(begun.elapsed())).await;
        assert_eq!(site.node().await["connected"], false);

        network.heal();
        let healed = Instant::now();
        let back = site.wait_node("the node online", |node| node["connected"] == true).await;
        figure("black hole gone, interval 1 s: until the node is back", back - healed);
        load.wait_complete(4).await;
        assert_eq!(site.node().await["generation"], 2);
        wait_said(&node, "fell silent", 1).await;
        let tally = site.finish(load).await;
        assert!(tally.broken > 0, "the runs in the hole broke off: {tally:?}");
    });
}

// [node-connectivity-supervision]
#[test]
fn an_edge_out_of_reach_for_longer_than_a_bounded_policy_gets_one_registration_of_the_unbounded_one() {
    in_namespaces(async |network| {
        network.cut();
        let bounded = json!({"max_attempts": 4, "interval_sec": 1});
        let site = Site::start(network, EDGE, |plan, engine| {
            plan.provider("gpu-bounded", "one", &engine.endpoint(), 1)
                .node_value("gpu-bounded", "/reconnect", bounded)
                .node_value("gpu-bounded", "/edge/addresses", json!([format!("{EDGE}:{PORT}")]))
        })
        .await;
        let mut patient = site.launch(GPU);
        let mut other = site.launch("gpu-bounded");
        assert_eq!(other.wait_for_exit(DEADLINE).await.code(), Some(3));
        assert_eq!(site.node().await["connected"], false);

        network.heal();
        let healed = Instant::now();
        let ready = patient.wait_for_ready(DEADLINE).await;
        figure("edge in reach again, interval 1 s: until the node is welcomed", healed.elapsed());
        assert_eq!(ready["generation"], "1");
        wait_said(&site.deployment.edge, "node connected", 1).await;
        wait_said(&patient, "no answer over UDP", 1).await;
        let load = site.load();
        load.wait_complete(2).await;
        site.finish(load).await;
    });
}

// [node-connectivity-supervision]
#[test]
fn a_name_that_resolves_later_is_found_by_the_same_process() {
    in_namespaces(async |network| {
        let name = "edge.test";
        let site = Site::start(network, name, |plan, _| plan).await;
        // `ip netns exec` puts these files in place of the system's.
        let files = Path::new("/etc/netns").join(network.namespace(Side::Node));
        std::fs::create_dir_all(&files).expect("root may write there");
        let hosts = |text: String| std::fs::write(files.join("hosts"), text).expect("the file is written");
        std::fs::write(files.join("nsswitch.conf"), "hosts: files\n").expect("the file is written");
        hosts("127.0.0.1 localhost\n".into());
        // Writes the node's file; this process is of no use, for it sees the system's names.
        drop(site.launch(GPU));
        let mut node = Program::new("ip")
            .named(GPU)
            .args(["netns", "exec", &network.namespace(Side::Node), IOP, "node", "--config", "gpu-a.yaml"])
            .directory(&site.deployment.path(""))
            .env("RUST_LOG", "info")
            .start();
        wait_said(&node, "the name in edge.test:7443 was not found", 1).await;
        hosts(format!("127.0.0.1 localhost\n{EDGE} {name}\n"));
        assert_eq!(node.wait_for_ready(DEADLINE).await["generation"], "1");
        wait_said(&node, "not connected", 1).await;
        let load = site.load();
        load.wait_complete(1).await;
        site.finish(load).await;
    });
}
