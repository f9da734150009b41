//! Holds the bounds in CONTRACT-admin.md true. Its tables are held against a running edge, in `tests/operations`.
//! [contract-spec-sync]

use super::event_stream::MAX_SUBSCRIBERS;
use super::{MAX_CONNECTIONS, MAX_STREAMS};
use crate::quiet;
use crate::server::{HEAD_BYTES, HEADER_TIMEOUT};

const CONTRACT: &str = include_str!("../../CONTRACT-admin.md");

#[test]
fn the_bounds_of_the_contract_are_the_bounds_of_the_code() {
    let text = CONTRACT.split_whitespace().collect::<Vec<_>>().join(" ");
    let bounds = [
        format!("At most {MAX_CONNECTIONS} connections at a time"),
        format!("At most {MAX_SUBSCRIBERS} streams of events at a time"),
        format!("At most {MAX_STREAMS} requests at a time on one connection of HTTP/2"),
        format!("head has not come within {} s", HEADER_TIMEOUT.as_secs()),
        format!("A head larger than {} KiB or 100 headers", (2 * HEAD_BYTES) >> 10),
        format!("at most {} lines in {} s", quiet::LINES, quiet::PERIOD.as_secs()),
    ];
    for bound in bounds {
        assert!(text.contains(&bound), "the contract should say: {bound}");
    }
}

/// The last connections to be closed for a newcomer are those with streams of events.
#[test]
fn streams_of_events_leave_connections_for_everything_else() {
    assert!(MAX_SUBSCRIBERS * 2 <= MAX_CONNECTIONS.get());
}
