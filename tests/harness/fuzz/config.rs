//! Configuration files: whatever their text, they compile or are refused with issues that can be found in it.

use iop_config::{
    Address, EdgeConfig, Endpoint, EndpointPattern, Environment, Issues, Kind, NodeConfig, Position,
    check_text, difference,
};
use std::fmt::{Debug, Display};
use std::path::Path;
use std::str::FromStr;

/// The text of a file, read as an edge's, as a node's, and as whichever it is. Its first line is read as an address too.
pub fn config(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let origin = Path::new("file.yaml");
    let lookup = |name: &str| (!name.contains('_')).then(|| name.to_owned());
    let edge = EdgeConfig::parse(&text, origin, &lookup);
    if let Ok(config) = &edge {
        assert!(difference(config, config).is_empty());
        assert!(difference(&config.before_first_load(), config).restart.is_empty());
    }
    let node = NodeConfig::parse(&text, origin);
    for environment in [Environment::Lookup(&lookup), Environment::Unchecked] {
        match check_text(&text, origin, environment) {
            Err(issues) => check_issues(&text, &issues),
            Ok(Kind::Node) => assert!(node.is_ok(), "checked as a node's, read as {node:?}"),
            Ok(Kind::Edge) if matches!(environment, Environment::Lookup(_)) => {
                assert!(edge.is_ok(), "checked as an edge's, read as {edge:?}");
            }
            Ok(Kind::Edge) => {}
        }
    }
    for issues in [edge.err(), node.err()].iter().flatten() {
        check_issues(&text, issues);
    }
    let line = text.lines().next().unwrap_or_default();
    reads_back::<Endpoint>(line);
    reads_back::<EndpointPattern>(line);
    reads_back::<Address>(line);
}

fn check_issues(text: &str, issues: &Issues) {
    assert!(issues.total() > 0 && issues.iter().len() <= issues.total(), "a refusal has a reason");
    assert!(issues.iter().is_sorted_by_key(|issue| issue.position));
    let shown = issues.to_string();
    let lines = issues.iter().len() + usize::from(issues.total() > issues.iter().len());
    assert_eq!(shown.lines().count(), lines, "an issue is a line: {shown}");
    for issue in issues {
        assert!(is_in(text, issue.position), "{issue} is not a place in {text:?}");
        assert!(!issue.found.is_empty() && !issue.expected.is_empty(), "{issue:?}");
    }
}

/// Whether the position is a character of the text, or right behind the end of a line.
fn is_in(text: &str, Position { line, column }: Position) -> bool {
    let line_ends = text.replace("\r\n", "\n").replace('\r', "\n");
    let Some(line) = (line as usize).checked_sub(1).and_then(|index| line_ends.split('\n').nth(index)) else {
        return false;
    };
    (1..=line.chars().count() + 1).contains(&(column as usize))
}

/// What is taken is shown so that it is taken again, as the same.
fn reads_back<T: FromStr<Err: Debug> + Display + PartialEq + Debug>(text: &str) {
    if let Ok(value) = text.parse::<T>() {
        assert_eq!(value.to_string().parse::<T>().expect("what is shown can be read"), value, "{text:?}");
    }
}
