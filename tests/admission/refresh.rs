//! A live change of settings. SPEC B [refresh-consistency]; that a config which does not validate changes nothing is shown
//! where it is read.

use super::desk::{Desk, ended, granted, grants, tell};
use iop_edge::admission::{ProviderSpec, Refusal};
use iop_tests::admission_model::{Setup, ask, slots};

fn setup() -> Setup {
    Setup::new().provider("a/x", slots(2)).model("m", &["a/x"]).model("n", &["a/x"])
}

fn disabled(capacity: u32) -> ProviderSpec {
    ProviderSpec { enabled: false, ..slots(capacity) }
}

// [refresh-consistency]
#[test]
fn existing_leases_outlive_every_change_and_are_returned_once() {
    let mut desk = Desk::open(setup());
    let grant = desk.submit("m").granted();
    desk.refresh(|setup| setup.provider("a/x", disabled(1)));
    desk.refresh(|setup| setup.provider("b/new", slots(1)).without_model("m"));
    assert_eq!(desk.provider("a/x").in_flight, 1);
    assert_eq!(desk.release(grant.lease), []);
    assert_eq!(desk.provider("a/x").in_flight, 0);
    assert_eq!(desk.snapshot().leases.released_total, 1);
}

// [refresh-consistency]
#[test]
fn lowered_capacity_counts_at_once() {
    let mut desk = Desk::open(setup());
    desk.submit("m").granted();
    desk.refresh(|setup| setup.provider("a/x", slots(1)));
    desk.submit("m").queued();
}

// [refresh-consistency]
#[test]
fn capacity_below_in_flight_admits_nothing_until_use_falls_below_it() {
    let mut desk = Desk::open(setup().provider("a/x", slots(3)));
    let running: Vec<_> = (0..3).map(|_| desk.submit("m").granted().lease).collect();
    let waiting = desk.submit("n").queued();
    assert_eq!(desk.refresh_everywhere(|setup| setup.provider("a/x", slots(1))), []);
    assert_eq!(desk.provider("a/x").in_flight, 3, "running requests stay");
    assert_eq!(desk.release(running[0]), []);
    assert_eq!(
        desk.release(running[1]),
        [tell("a")],
        "from here on nothing granted earlier needs the old capacity"
    );
    assert_eq!(granted(&desk.release(running[2])), [waiting]);
}

// [refresh-consistency]
#[test]
fn capacity_raised_back_over_the_leases_that_are_out_leaves_nothing_to_tell() {
    let mut desk = Desk::open(setup().provider("a/x", slots(3)));
    let running: Vec<_> = (0..3).map(|_| desk.submit("m").granted().lease).collect();
    desk.refresh(|setup| setup.provider("a/x", slots(1)));
    desk.refresh(|setup| setup.provider("a/x", slots(3)));
    for lease in running {
        assert_eq!(desk.release(lease), []);
    }
}

// [refresh-consistency]
#[test]
fn leases_held_are_told_by_node_with_those_of_a_provider_taken_out() {
    let mut desk =
        Desk::open(setup().provider("a/y", slots(1)).provider("b/z", slots(1)).model("o", &["a/y"]));
    desk.submit("m").granted();
    desk.submit("m").granted();
    desk.submit("o").granted();
    desk.refresh(|setup| setup.without_provider("a/x").without_model("m").without_model("n"));
    assert_eq!(desk.in_flight("a"), [("x".into(), 2), ("y".into(), 1)].into());
    assert_eq!(desk.in_flight("b"), [("z".into(), 0)].into());
}

// [refresh-consistency]
#[test]
fn raised_capacity_counts_only_when_the_node_has_confirmed_it() {
    let mut desk = Desk::open(setup().provider("a/x", slots(1)));
    desk.submit("m").granted();
    let waiting = desk.submit("m").queued();
    assert_eq!(desk.refresh(|setup| setup.provider("a/x", slots(2))), []);
    assert_eq!(desk.provider("a/x").effective_capacity, 1);
    assert_eq!(granted(&desk.applied("a", &[("x", Some(2))])), [waiting]);
    assert_eq!(desk.provider("a/x").effective_capacity, 2);
}

// [refresh-consistency]
#[test]
fn capacity_lowered_and_raised_again_waits_for_a_confirmation() {
    let mut desk = Desk::open(setup());
    desk.refresh(|setup| setup.provider("a/x", slots(1)));
    desk.refresh(|setup| setup.provider("a/x", slots(2)));
    assert_eq!(desk.provider("a/x").effective_capacity, 1, "the node may be at the lower one just now");
    desk.applied("a", &[("x", Some(1))]);
    assert_eq!(desk.provider("a/x").effective_capacity, 1);
    desk.applied("a", &[("x", Some(2))]);
    assert_eq!(desk.provider("a/x").effective_capacity, 2);
}

// [refresh-consistency]
#[test]
fn late_confirmation_of_an_older_capacity_does_not_count_for_a_later_raise() {
    let mut desk = Desk::open(setup());
    desk.refresh(|setup| setup.provider("a/x", slots(1)));
    desk.applied("a", &[("x", Some(2))]);
    desk.refresh(|setup| setup.provider("a/x", slots(2)));
    assert_eq!(desk.provider("a/x").effective_capacity, 1, "the node is on its way to the lower one");
}

// [refresh-consistency]
#[test]
fn node_that_confirms_more_than_is_configured_gives_no_more_slots() {
    let mut desk = Desk::open(setup());
    desk.applied("a", &[("x", Some(9))]);
    assert_eq!(desk.provider("a/x").effective_capacity, 2);
}

// [refresh-consistency]
#[test]
fn confirmation_for_one_provider_leaves_the_others_of_the_node_alone() {
    let setup = setup().provider("a/y", slots(1)).model("o", &["a/y"]);
    let mut desk = Desk::closed(setup);
    desk.online("a");
    desk.applied("a", &[("y", Some(1)), ("unknown", Some(4))]);
    assert_eq!((desk.provider("a/x").effective_capacity, desk.provider("a/y").effective_capacity), (0, 1));
}

// [refresh-consistency]
#[test]
fn disabling_keeps_what_runs_and_moves_what_waits_to_another_candidate() {
    let setup = setup().provider("b/y", slots(1)).model("both", &["a/x", "b/y"]).model("only-y", &["b/y"]);
    let mut desk = Desk::open(setup.provider("a/x", slots(1)));
    let on_x = desk.submit("m").granted();
    let on_y = desk.submit("only-y").granted();
    let waiting = desk.submit("both").queued();
    assert_eq!(desk.refresh(|setup| setup.provider("a/x", disabled(1))), []);
    assert_eq!(desk.release(on_x.lease), [], "the returned slot of a disabled provider is given to nobody");
    let moved = grants(&desk.release(on_y.lease));
    assert_eq!((moved[0].pending.ticket, &*moved[0].provider.node), (waiting, "b"));
}

// [refresh-consistency]
#[test]
fn disabling_the_last_candidate_ends_its_waiting_requests_now() {
    let mut desk = Desk::open(setup().provider("a/x", slots(1)));
    desk.submit("m").granted();
    let waiting = desk.submit("n").queued();
    let effects = desk.refresh(|setup| setup.provider("a/x", disabled(1)));
    assert_eq!(effects, [ended(waiting, Refusal::Unavailable)]);
}

// [refresh-consistency]
#[test]
fn enabled_again_provider_admits_with_the_leases_that_it_still_has() {
    let mut desk = Desk::open(setup().provider("a/x", slots(1)));
    let running = desk.submit("m").granted();
    desk.refresh(|setup| setup.provider("a/x", disabled(1)));
    assert_eq!(desk.submit("m").refused(), Refusal::Unavailable);
    desk.refresh(|setup| setup.provider("a/x", slots(1)));
    let waiting = desk.submit("m").queued();
    assert_eq!(granted(&desk.release(running.lease)), [waiting]);
}

// [refresh-consistency]
#[test]
fn changed_threshold_frees_a_waiting_request_from_its_long_slot() {
    let long = iop_tests::admission_model::long_slots(2, 1);
    let mut desk = Desk::open(setup().provider("a/x", long).threshold("m", 100));
    desk.submit(ask("m").tokens(101)).granted();
    let waiting = desk.submit(ask("m").tokens(101)).queued();
    assert_eq!(granted(&desk.refresh(|setup| setup.threshold("m", 200))), [waiting]);
}

// [refresh-consistency]
#[test]
fn waiting_request_that_no_window_fits_any_more_ends_now() {
    let window = |tokens| ProviderSpec { window: Some(tokens), ..slots(1) };
    let mut desk = Desk::open(setup().provider("a/x", window(200)));
    desk.submit("m").granted();
    let waiting = desk.submit(ask("m").tokens(150)).queued();
    let effects = desk.refresh(|setup| setup.provider("a/x", window(100)));
    assert_eq!(effects, [ended(waiting, Refusal::ContextLengthExceeded { tokens: 150, window: 100 })]);
}

// [refresh-consistency]
#[test]
fn removed_models_waiting_requests_end_with_model_not_found_and_no_other_does() {
    let mut desk = Desk::open(setup().provider("a/x", slots(1)));
    let running = desk.submit("m").granted();
    let of_removed = desk.submit("m").queued();
    let of_other = desk.submit("n").queued();
    let effects = desk.refresh(|setup| setup.without_model("m"));
    assert_eq!(effects, [ended(of_removed, Refusal::ModelNotFound)]);
    assert_eq!(granted(&desk.release(running.lease)), [of_other], "and the run of the removed model went on");
}

// [refresh-consistency]
#[test]
fn added_candidate_runs_those_that_wait() {
    let mut desk = Desk::open(setup().provider("a/x", slots(1)).provider("b/y", slots(1)));
    desk.submit("m").granted();
    let waiting = desk.submit("m").queued();
    let moved = grants(&desk.refresh(|setup| setup.model("m", &["a/x", "b/y"])));
    assert_eq!((moved[0].pending.ticket, &*moved[0].provider.node), (waiting, "b"));
}

// [refresh-consistency]
#[test]
fn refresh_without_a_change_changes_nothing() {
    let mut desk = Desk::open(setup().provider("a/x", slots(1)));
    desk.submit("m").granted();
    desk.submit("n").queued();
    let before = desk.snapshot();
    assert_eq!(desk.refresh(|setup| setup), []);
    let after = desk.snapshot();
    assert_eq!((before.queue, before.leases, before.providers), (after.queue, after.leases, after.providers));
}

// [refresh-consistency]
#[test]
fn place_in_the_queue_survives_a_refresh() {
    let mut desk = Desk::open(setup().provider("a/x", slots(1)));
    let running = desk.submit("m").granted();
    let waiting: Vec<_> = ["n", "m", "n"].into_iter().map(|model| desk.submit(model).queued()).collect();
    desk.refresh(|setup| {
        setup.provider("0/first-in-order", slots(1)).model("a-new-one", &["0/first-in-order"])
    });
    assert_eq!(granted(&desk.release(running.lease)), waiting[..1]);
}

// [refresh-consistency]
#[test]
fn provider_added_to_a_connected_node_is_live_and_waits_for_its_first_confirmation() {
    let mut desk = Desk::open(setup());
    assert_eq!(desk.refresh(|setup| setup.provider("a/new", slots(1)).model("new", &["a/new"])), []);
    assert!(desk.provider("a/new").live);
    let waiting = desk.submit("new").queued();
    let grant = grants(&desk.applied("a", &[("new", Some(1))])).remove(0);
    assert_eq!((grant.pending.ticket, grant.generation), (waiting, desk.generation("a")));
}

// [refresh-consistency]
#[test]
fn provider_taken_out_keeps_its_leases_and_ends_what_waits_for_it() {
    let mut desk =
        Desk::open(setup().provider("a/x", slots(1)).provider("a/y", slots(1)).model("y", &["a/y"]));
    let running = desk.submit("y").granted();
    let waiting = desk.submit("y").queued();
    let effects = desk.refresh(|setup| setup.without_provider("a/y").without_model("y"));
    assert_eq!(effects, [ended(waiting, Refusal::ModelNotFound)]);
    assert_eq!(desk.snapshot().leases.active, 1);
    assert_eq!(desk.snapshot().providers.len(), 1, "it is not shown any more");
    assert_eq!(desk.release(running.lease), [tell("a")]);
    assert_eq!(desk.snapshot().leases.active, 0);
}

// [refresh-consistency] [provider-state]
#[test]
fn provider_taken_out_and_put_back_still_counts_the_leases_that_ran_on() {
    let mut desk = Desk::open(setup().provider("a/x", slots(1)));
    let running = desk.submit("m").granted();
    desk.refresh(|setup| setup.without_provider("a/x"));
    desk.refresh(|setup| setup.provider("a/x", slots(1)).model("m", &["a/x"]));
    desk.applied_all("a");
    assert_eq!(desk.provider("a/x").in_flight, 1);
    let waiting = desk.submit("m").queued();
    assert_eq!(granted(&desk.release(running.lease)), [waiting]);
}

// [refresh-consistency] [disconnect-exclusion]
#[test]
fn disconnect_fences_the_leases_of_a_provider_taken_out() {
    let mut desk = Desk::open(setup());
    let running = desk.submit("m").granted();
    desk.refresh(|setup| setup.without_provider("a/x"));
    desk.offline("a");
    let leases = desk.snapshot().leases;
    assert_eq!((leases.active, leases.fenced_total), (0, 1));
    assert_eq!(desk.release(running.lease), []);
}

// [refresh-consistency]
#[test]
fn provider_put_back_while_old_leases_run_waits_for_a_new_confirmation() {
    let mut desk = Desk::open(setup());
    desk.submit("m").granted();
    desk.refresh(|setup| setup.without_provider("a/x"));
    desk.applied("a", &[("x", Some(2))]);
    desk.refresh(|setup| setup.provider("a/x", slots(2)).model("m", &["a/x"]));
    assert_eq!(desk.provider("a/x").effective_capacity, 0, "its gate was taken away in between");
    let waiting = desk.submit("m").queued();
    assert_eq!(granted(&desk.applied_all("a")), [waiting]);
}
