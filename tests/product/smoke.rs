//! `iop demo --smoke`: the promise of the product, checked by one command. What it prints is read as a person would.

use crate::lab::{DEADLINE, Site};

/// [capacity-smoke]
#[tokio::test]
async fn the_smoke_of_a_demo_passes_with_one_request_at_a_time_and_every_counter_back() {
    let site = Site::empty();
    let finished =
        site.program(&["demo", "--smoke"]).run(DEADLINE).await.expect_success("the smoke of a demo");
    let found = |what: &str| {
        let line = finished.stdout.iter().find_map(|line| line.strip_prefix(what));
        let line = line.unwrap_or_else(|| panic!("no {what:?} in {:#?}", finished.stdout));
        line.split_whitespace().next().expect("a number stands behind it").to_owned()
    };
    assert_eq!(found("most at once at the server"), "1");
    let requests = found("requests answered");
    assert!(requests.parse::<u32>().expect("a number") > 1, "{requests} requests");
    for all in ["requests the server saw", "leases acquired", "leases released"] {
        assert_eq!(found(all), requests, "{all}");
    }
    for none in
        ["leases fenced", "leases active", "provider in_flight", "provider long_in_flight", "queue length"]
    {
        assert_eq!(found(none), "0", "{none}");
    }
    assert_eq!(
        finished.stdout.iter().filter(|line| *line == "smoke passed").count(),
        1,
        "{:#?}",
        finished.stdout
    );
}
