//! Who depends on whom, as Cargo reads the manifests.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Package → (dependency, kind) of everything that the manifests declare. The kind is `normal`, `dev` or `build`.
fn dependencies() -> BTreeMap<String, BTreeSet<(String, String)>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let dependency = |value: &Value| {
        (text(&value["name"]).expect("a name"), text(&value["kind"]).unwrap_or_else(|| "normal".to_owned()))
    };
    let package = |value: &Value| {
        let list = value["dependencies"].as_array().expect("a list");
        (text(&value["name"]).expect("a name"), list.iter().map(dependency).collect())
    };
    metadata["packages"].as_array().expect("a list").iter().map(package).collect()
}

/// The packages of the workspace that this one needs when it is built for users.
fn needs(package: &str) -> BTreeSet<String> {
    let all = dependencies();
    let own = all.get(package).unwrap_or_else(|| panic!("{package} is in the workspace: {all:?}"));
    let own = own.iter().filter(|(name, kind)| kind != "dev" && all.contains_key(name));
    own.map(|(name, _)| name.clone()).collect()
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn the_workspace_has_exactly_its_seven_packages() {
    let packages: BTreeSet<String> = dependencies().into_keys().collect();
    let expected = ["iop", "iop-certs", "iop-config", "iop-edge", "iop-node", "iop-tests", "iop-transport"];
    assert_eq!(packages, names(&expected));
}

#[test]
fn config_transport_and_certs_are_leaves() {
    for leaf in ["iop-config", "iop-transport", "iop-certs"] {
        assert_eq!(needs(leaf), names(&[]), "what {leaf} needs of the workspace");
    }
}

#[test]
fn edge_and_node_need_the_leaves_and_not_each_other() {
    let leaves = names(&["iop-certs", "iop-config", "iop-transport"]);
    for half in ["iop-edge", "iop-node"] {
        assert_eq!(needs(half), leaves, "what {half} needs of the workspace");
    }
}

#[test]
fn no_room_is_tested_with_another_room_behind_its_back() {
    let rooms = names(&["iop-certs", "iop-config", "iop-edge", "iop-node", "iop-transport"]);
    for (package, dependencies) in dependencies().iter().filter(|(package, _)| rooms.contains(*package)) {
        let dev = dependencies.iter().filter(|(name, kind)| kind == "dev" && rooms.contains(name));
        let unknown: Vec<_> = dev.filter(|(name, _)| !needs(package).contains(name)).collect();
        assert!(unknown.is_empty(), "{package}'s tests use {unknown:?}");
    }
}

#[test]
fn quinn_and_bincode_are_transports_alone() {
    let all = dependencies();
    for library in ["quinn", "quinn-proto", "bincode"] {
        let uses = |dependencies: &BTreeSet<(String, String)>| {
            dependencies.iter().any(|(name, kind)| name == library && kind != "dev")
        };
        let users: Vec<_> =
            all.iter().filter(|(_, dependencies)| uses(dependencies)).map(|(name, _)| name).collect();
        assert_eq!(users, ["iop-transport"], "who needs {library}");
    }
}
