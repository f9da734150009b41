//! The configuration files as their users meet them: what a text compiles to, and what is said of a wrong one. One test
//! program for the whole crate; it goes through the public interface only.

mod bounds;
mod contract;
mod difference;
mod endpoints;
mod environment;
mod examples;
mod full;
mod hints;
mod issues;
mod joined;
mod never_panics;
mod values;

use std::path::Path;

use iop_config::{EdgeConfig, Issues, NodeConfig};

/// The variables of the edge's process.
const VARIABLES: [(&str, &str); 3] =
    [("ALICE_KEY", "alice-secret"), ("OPERATOR_KEY", "operator-secret"), ("OTHER_KEY", "other-secret")];

/// Compiles an edge's file that stands at `/etc/iop/edge.yaml`, in a process with these [`VARIABLES`].
fn edge(text: &str) -> Result<EdgeConfig, Issues> {
    let known = |name: &str| VARIABLES.iter().find(|(known, _)| *known == name);
    let lookup = |name: &str| known(name).map(|(_, value)| (*value).to_owned());
    EdgeConfig::parse(text, Path::new("/etc/iop/edge.yaml"), &lookup)
}

/// Compiles a node's file that stands at `/etc/iop/node.yaml`.
fn node(text: &str) -> Result<NodeConfig, Issues> {
    NodeConfig::parse(text, Path::new("/etc/iop/node.yaml"))
}

/// The lines of the report, without the file's name.
fn lines<T>(compiled: Result<T, Issues>) -> Vec<String> {
    let Err(issues) = compiled else { return Vec::new() };
    assert!(issues.iter().is_sorted_by_key(|issue| issue.position), "issues come in file order: {issues}");
    issues.iter().map(ToString::to_string).collect()
}

/// A text and every line that is said of it.
struct Case {
    text: &'static str,
    issues: &'static [&'static str],
}

fn assert_issues<T>(cases: &[Case], compile: impl Fn(&str) -> Result<T, Issues>) {
    assert!(!cases.is_empty(), "there are cases");
    for Case { text, issues } in cases {
        assert_eq!(lines(compile(text)), *issues, "of this file:\n{text}");
    }
}
