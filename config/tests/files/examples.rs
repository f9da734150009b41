//! The files in examples/ are what README shows: they must load.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use iop_config::{EdgeConfig, Environment, Kind, NodeConfig, check};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")
}

#[test]
fn every_example_is_a_good_file() {
    let lookup = |name: &str| Some(format!("value-of-{name}"));
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder()).expect("there are examples") {
        let path = entry.expect("the folder can be read").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("names are text").to_owned();
        let kind = if name.starts_with("node") { Kind::Node } else { Kind::Edge };
        let checked = check(&path, Environment::Lookup(&lookup)).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(checked, kind, "{name}");
        found.insert(name);
    }
    let expected = ["edge-two-nodes.yaml", "edge.yaml", "node.yaml"];
    assert_eq!(found, expected.map(str::to_owned).into_iter().collect());
}

#[test]
fn the_examples_of_edge_and_node_fit_together_in_one_folder() {
    let edge = EdgeConfig::load(&folder().join("edge.yaml")).expect("the edge's example is good");
    let node = NodeConfig::load(&folder().join("node.yaml")).expect("the node's example is good");

    let [address] = node.edge.addresses.as_slice() else { panic!("the node dials one address") };
    assert_eq!(address.to_string(), "127.0.0.1:7443");
    assert_eq!(edge.quic.listen.port(), address.port());
    assert_eq!(edge.http.listen.to_string(), "127.0.0.1:8080");

    let [declared] = edge.nodes.as_slice() else { panic!("the edge knows one node") };
    assert_eq!(node.certs.bundle, edge.certs.dir.join(format!("{}.pem", declared.id)));
    assert_eq!(edge.certs.dir, folder().join("pki"));
    for provider in &declared.providers {
        let upstream = provider.adapter.upstream().expect("the example's provider is a server");
        assert!(node.allows(&upstream.endpoint), "the node lets the edge use {}", upstream.endpoint);
    }
    let models: Vec<_> = edge.models.iter().map(|model| model.id.as_str()).collect();
    assert_eq!(models, ["ornith:35b", "ornith-fast"]);
}
