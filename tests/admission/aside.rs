//! A provider whose server refuses connections is set aside for a short, growing time; one trial brings it back.

use super::desk::{Desk, granted, grants, place};
use iop_edge::admission::{AsideSnapshot, Effect, Grant, ProviderSpec, Refusal, Ticket};
use iop_tests::admission_model::{Setup, ask, slots};
use std::time::Duration;

/// `a/x` is asked first for `m`, with two slots; `b/y` has two as well.
fn setup() -> Setup {
    let preferred = ProviderSpec { priority: 1, ..slots(2) };
    let setup = Setup::new().provider("a/x", preferred).provider("b/y", slots(2));
    setup.model("m", &["a/x", "b/y"]).model("x", &["a/x"]).model("y", &["b/y"])
}

/// Runs one request into the server that refuses connections, and ends it there.
fn fail(desk: &mut Desk, model: &str, provider: &str) -> Vec<Effect> {
    let grant = desk.submit(model).granted();
    assert_eq!(place(&grant), provider);
    fail_granted(desk, &grant)
}

fn fail_granted(desk: &mut Desk, grant: &Grant) -> Vec<Effect> {
    let mut effects = desk.unreachable(grant);
    effects.extend(desk.release(grant.lease));
    effects
}

/// Where `count` requests of the model run at once; they end again.
fn places(desk: &mut Desk, model: &str, count: usize) -> Vec<String> {
    let grants: Vec<Grant> = (0..count).map(|_| desk.submit(model).granted()).collect();
    for grant in &grants {
        desk.release(grant.lease);
    }
    grants.iter().map(place).collect()
}

/// Takes every slot of the provider with requests of a model of its own.
fn fill(desk: &mut Desk, model: &str) -> Vec<Grant> {
    (0..2).map(|_| desk.submit(model).granted()).collect()
}

fn aside(desk: &Desk, provider: &str) -> Option<(u64, u32)> {
    desk.provider(provider).aside.map(|AsideSnapshot { until, failures, .. }| (until.as_secs(), failures))
}

#[test]
fn provider_that_refuses_connections_draws_no_traffic_though_it_is_idle_and_preferred() {
    let mut desk = Desk::open(setup());
    fail(&mut desk, "m", "a/x");
    for _ in 0..10 {
        assert_eq!(places(&mut desk, "m", 2), ["b/y", "b/y"]);
    }
}

#[test]
fn request_that_found_nobody_listening_goes_to_the_other_provider() {
    let mut desk = Desk::open(setup());
    let first = desk.submit("m").granted();
    assert_eq!(desk.unreachable(&first), []);
    assert_eq!(place(&desk.retry(&first).0.granted()), "b/y");
}

#[test]
fn request_waits_for_the_live_provider_though_the_one_set_aside_is_free() {
    let mut desk = Desk::open(setup());
    fail(&mut desk, "m", "a/x");
    let busy = fill(&mut desk, "y");
    let waiting = desk.submit("m").queued();
    assert_eq!(granted(&desk.release(busy[0].lease)), [waiting]);
}

#[test]
fn slot_of_the_failed_request_goes_to_nobody_who_has_another_provider() {
    let mut desk = Desk::open(setup());
    fill(&mut desk, "y");
    let on_x = fill(&mut desk, "m");
    let waiting = desk.submit("m").queued();
    assert_eq!(fail_granted(&mut desk, &on_x[0]), []);
    assert_eq!(desk.cancel(waiting), []);
}

#[test]
fn request_without_another_provider_is_tried_on_the_one_set_aside() {
    let mut desk = Desk::open(setup());
    fail(&mut desk, "m", "a/x");
    assert_eq!(places(&mut desk, "x", 2), ["a/x", "a/x"]);
}

// [cross-group-wakeup]
#[test]
fn requests_try_anyone_as_soon_as_all_their_providers_are_set_aside() {
    let mut desk = Desk::open(setup());
    fail(&mut desk, "m", "a/x");
    let on_y = fill(&mut desk, "y");
    let waiting: Vec<Ticket> = (0..2).map(|_| desk.submit("m").queued()).collect();
    let granted = grants(&desk.unreachable(&on_y[0]));
    assert_eq!(granted.iter().map(|grant| grant.pending.ticket).collect::<Vec<_>>(), waiting);
    assert!(granted.iter().all(|grant| place(grant) == "a/x" && grant.failures == 1), "{granted:?}");
}

// [cross-group-wakeup] [disconnect-queue-resolution]
#[test]
fn loss_of_the_live_provider_wakes_requests_for_the_one_set_aside() {
    let off = ProviderSpec { enabled: false, ..slots(2) };
    let losses: [fn(&mut Desk, ProviderSpec) -> Vec<Effect>; 3] = [
        |desk, _| desk.offline("b"),
        |desk, _| desk.applied("b", &[("y", None)]),
        |desk, off| desk.refresh(|setup| setup.provider("b/y", off)),
    ];
    for lose in losses {
        let mut desk = Desk::open(setup());
        fail(&mut desk, "m", "a/x");
        fill(&mut desk, "y");
        let waiting = desk.submit("m").queued();
        assert_eq!(granted(&lose(&mut desk, off)), [waiting]);
    }
}

#[test]
fn provider_set_aside_is_still_a_candidate_so_requests_are_not_refused_for_want_of_one() {
    let mut desk = Desk::open(setup().without_provider("b/y"));
    fail(&mut desk, "m", "a/x");
    fill(&mut desk, "x");
    desk.submit("m").queued();
    assert!(desk.provider("a/x").live);
}

#[test]
fn time_doubles_with_each_failure_in_a_row_up_to_a_minute() {
    let mut desk = Desk::open(setup());
    let mut now = 0;
    for (failures, seconds) in (1..).zip([1, 2, 4, 8, 16, 32, 60, 60]) {
        fail(&mut desk, "m", "a/x");
        assert_eq!(aside(&desk, "a/x"), Some((now + seconds, failures)));
        assert_eq!(desk.next_deadline(), Some(Duration::from_secs(now + seconds)));
        assert_eq!(desk.pass(seconds), []);
        now += seconds;
    }
    assert_eq!(desk.next_deadline(), None, "it waits for a request to try it");
}

#[test]
fn failures_of_requests_on_their_way_together_count_as_one() {
    let mut desk = Desk::open(setup());
    let burst = fill(&mut desk, "m");
    fail_granted(&mut desk, &burst[0]);
    desk.pass(1);
    fail_granted(&mut desk, &burst[1]);
    assert_eq!(aside(&desk, "a/x"), Some((1, 1)), "the second was granted before the first failed");
}

#[test]
fn time_grows_with_the_outage_and_not_with_the_requests_that_have_nobody_else() {
    let mut desk = Desk::open(setup());
    for _ in 0..10 {
        fail(&mut desk, "x", "a/x");
    }
    assert_eq!(aside(&desk, "a/x"), Some((1, 1)));
    desk.pass(1);
    fail(&mut desk, "x", "a/x");
    assert_eq!(aside(&desk, "a/x"), Some((3, 2)));
}

#[test]
fn one_request_at_a_time_is_the_trial() {
    let mut desk = Desk::open(setup());
    fail(&mut desk, "m", "a/x");
    desk.pass(1);
    assert_eq!(places(&mut desk, "m", 2), ["a/x", "b/y"]);
    let trial = desk.submit("m").granted();
    assert_eq!((place(&trial).as_str(), trial.failures), ("a/x", 1));
    assert_eq!(places(&mut desk, "m", 2), ["b/y", "b/y"]);
}

// [cross-group-wakeup]
#[test]
fn trial_is_given_to_the_earliest_that_waits_when_its_time_has_come() {
    let mut desk = Desk::open(setup());
    fail(&mut desk, "m", "a/x");
    fill(&mut desk, "y");
    let first = desk.submit("m").queued();
    desk.submit("m").queued();
    assert_eq!(granted(&desk.pass(1)), [first]);
}

// [cross-group-wakeup]
#[test]
fn trial_whose_client_leaves_is_followed_by_another() {
    let mut desk = Desk::open(setup());
    fail(&mut desk, "m", "a/x");
    fill(&mut desk, "y");
    desk.pass(1);
    let trial = desk.submit("m").granted();
    let waiting = desk.submit("m").queued();
    assert_eq!(granted(&desk.release(trial.lease)), [waiting]);
}

// [cross-group-wakeup]
#[test]
fn trial_that_reaches_the_server_brings_the_provider_back_for_all_that_wait() {
    let mut desk = Desk::open(setup());
    fail(&mut desk, "m", "a/x");
    fill(&mut desk, "y");
    desk.pass(1);
    let trial = desk.submit("m").granted();
    let waiting = desk.submit("m").queued();
    assert_eq!(granted(&desk.reached(&trial)), [waiting]);
    assert_eq!(aside(&desk, "a/x"), None);
    desk.release(trial.lease);
    let on_x = desk.submit("m").granted();
    assert_eq!((place(&on_x).as_str(), on_x.failures), ("a/x", 0));
}

#[test]
fn failures_count_anew_after_the_server_was_reached() {
    let mut desk = Desk::open(setup());
    fail(&mut desk, "m", "a/x");
    desk.pass(1);
    let trial = desk.submit("m").granted();
    desk.reached(&trial);
    desk.release(trial.lease);
    fail(&mut desk, "m", "a/x");
    assert_eq!(aside(&desk, "a/x"), Some((2, 1)));
}

#[test]
fn new_connection_of_the_node_brings_its_providers_back() {
    let mut desk = Desk::open(setup());
    let old = desk.submit("m").granted();
    desk.unreachable(&old);
    desk.connect("a");
    assert_eq!(aside(&desk, "a/x"), None);
    assert_eq!(places(&mut desk, "m", 1), ["a/x"]);
    assert_eq!(desk.next_deadline(), None);
}

// [disconnect-exclusion]
#[test]
fn verdicts_of_an_earlier_generation_change_nothing() {
    let mut desk = Desk::open(setup());
    let old = desk.submit("m").granted();
    desk.connect("a");
    assert_eq!(desk.unreachable(&old), []);
    assert_eq!(aside(&desk, "a/x"), None);
    fail(&mut desk, "m", "a/x");
    assert_eq!(desk.reached(&old), []);
    assert_eq!(aside(&desk, "a/x"), Some((1, 1)));
}

// [refresh-consistency]
#[test]
fn refresh_keeps_a_provider_aside_unless_it_was_taken_out_meanwhile() {
    let mut desk = Desk::open(setup());
    fail(&mut desk, "m", "a/x");
    desk.refresh_everywhere(|setup| setup.provider("a/x", slots(3)));
    assert_eq!(aside(&desk, "a/x"), Some((1, 1)));
    desk.refresh(|setup| setup.without_provider("a/x"));
    desk.refresh_everywhere(|_| self::setup());
    assert_eq!(aside(&desk, "a/x"), None);
    assert_eq!(places(&mut desk, "m", 1), ["a/x"]);
}

#[test]
fn request_that_waits_for_the_live_provider_times_out_like_any_other() {
    let mut desk = Desk::open(setup().timeout_sec(1));
    fail(&mut desk, "m", "a/x");
    fill(&mut desk, "y");
    let waiting = desk.submit(ask("m")).queued();
    let refusal = Refusal::QueueTimeout { timeout: Duration::from_secs(1) };
    assert_eq!(
        desk.pass(1),
        [super::desk::ended(waiting, refusal)],
        "though the trial is due at this moment"
    );
}
