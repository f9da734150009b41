//! Which of several free providers is chosen: priority, then relative use, then least recently used. DESIGN section 2.

use super::desk::{Desk, place};
use iop_edge::admission::ProviderSpec;
use iop_tests::admission_model::{Setup, ask, slots};

fn places(desk: &mut Desk, count: usize) -> Vec<String> {
    (0..count).map(|_| place(&desk.submit("m").granted())).collect()
}

#[test]
fn higher_priority_is_filled_first() {
    let preferred = ProviderSpec { priority: 10, ..slots(2) };
    let setup = Setup::new().provider("a/x", slots(2)).provider("b/y", preferred).model("m", &["a/x", "b/y"]);
    assert_eq!(places(&mut Desk::open(setup), 4), ["b/y", "b/y", "a/x", "a/x"]);
}

#[test]
fn negative_priority_is_the_last_resort() {
    let spare = ProviderSpec { priority: -1, ..slots(1) };
    let setup =
        Setup::new().provider("a/spare", spare).provider("b/y", slots(1)).model("m", &["a/spare", "b/y"]);
    assert_eq!(places(&mut Desk::open(setup), 2), ["b/y", "a/spare"]);
}

#[test]
fn lower_relative_use_goes_before_lower_use() {
    let setup = Setup::new().provider("a/big", slots(8)).provider("b/small", slots(2));
    let mut desk = Desk::open(setup.model("m", &["a/big", "b/small"]).model("small", &["b/small"]));
    desk.submit("small").granted();
    // 1 of 2 is more than 3 of 8; at 4 of 8 they are equal, and the small one was used longer ago.
    assert_eq!(places(&mut desk, 5), ["a/big", "a/big", "a/big", "a/big", "b/small"]);
}

#[test]
fn least_recently_used_goes_first_among_equals() {
    let setup = Setup::new().provider("a/x", slots(1)).provider("b/y", slots(1)).provider("c/z", slots(1));
    let mut desk = Desk::open(setup.model("m", &["a/x", "b/y", "c/z"]));
    for expected in ["a/x", "b/y", "c/z", "a/x", "b/y", "c/z"] {
        let grant = desk.submit("m").granted();
        assert_eq!(place(&grant), expected);
        desk.release(grant.lease);
    }
}

#[test]
fn provider_without_a_free_slot_is_passed_over() {
    let preferred = ProviderSpec { priority: 10, ..slots(1) };
    let setup = Setup::new().provider("a/x", preferred).provider("b/y", slots(1)).model("m", &["a/x", "b/y"]);
    let mut desk = Desk::open(setup);
    assert_eq!(places(&mut desk, 2), ["a/x", "b/y"]);
    desk.submit("m").queued();
}

#[test]
fn provider_whose_window_is_too_small_is_passed_over() {
    let small = ProviderSpec { window: Some(1_000), priority: 10, ..slots(4) };
    let setup =
        Setup::new().provider("a/small", small).provider("b/y", slots(1)).model("m", &["a/small", "b/y"]);
    let mut desk = Desk::open(setup);
    assert_eq!(place(&desk.submit(ask("m").tokens(1_001)).granted()), "b/y");
    desk.submit(ask("m").tokens(1_001)).queued();
    assert_eq!(place(&desk.submit(ask("m").tokens(1_000)).granted()), "a/small");
}

// [refresh-consistency]
#[test]
fn changed_priority_decides_the_next_choice() {
    let setup = Setup::new().provider("a/x", slots(4)).provider("b/y", slots(4)).model("m", &["a/x", "b/y"]);
    let mut desk = Desk::open(setup.provider("a/x", ProviderSpec { priority: 1, ..slots(4) }));
    assert_eq!(places(&mut desk, 1), ["a/x"]);
    desk.refresh(|setup| setup.provider("b/y", ProviderSpec { priority: 2, ..slots(4) }));
    assert_eq!(places(&mut desk, 2), ["b/y", "b/y"]);
}
