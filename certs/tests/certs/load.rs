//! Bundles that load: whatever iop wrote, in whatever order its parts stand.

use iop_certs::{Role, load_bundle, load_bundle_at, now};
use rustls::pki_types::PrivateKeyDer;

use crate::made::{NOW, Pki, folder, private, sections, set_mode, text};

#[test]
fn the_parts_of_a_bundle_may_stand_in_any_order_and_have_text_between_them() {
    let pki = Pki::new();
    let parts = sections(&text(&pki.node("gpu-a")));
    let [key, leaf, issuing, root] = &parts[..] else { panic!("four parts, not {}", parts.len()) };
    let first = load_bundle_at(&pki.path("gpu-a.pem"), Role::Node, NOW).expect("as written");
    let orders = [[root, issuing, leaf, key], [leaf, key, root, issuing], [issuing, root, key, leaf]];
    for order in orders {
        let mixed = order.map(String::as_str).join("a note\n");
        let path = private(&pki.path("mixed.pem"), mixed);
        let node = load_bundle_at(&path, Role::Node, NOW).expect("the same parts");
        assert_eq!(node.chain, first.chain);
        assert_eq!(node.roots, first.roots);
    }
}

#[test]
fn lines_may_end_as_on_windows() {
    let pki = Pki::new();
    let path = private(&pki.path("crlf.pem"), text(&pki.edge()).replace('\n', "\r\n"));
    load_bundle_at(&path, Role::Edge, NOW).expect("the same parts");
}

#[test]
fn a_further_root_may_be_added_before_the_old_one_goes() {
    let (pki, newer) = (Pki::new(), Pki::new());
    let both = text(&pki.edge()) + &text(&newer.path("root.pem"));
    let edge = load_bundle_at(&private(&pki.edge(), both), Role::Edge, NOW).expect("two roots");
    assert_eq!((edge.roots.len(), edge.chain.len()), (2, 2));
    let theirs = load_bundle_at(&newer.edge(), Role::Edge, NOW).expect("the newer loads");
    assert!(edge.roots.contains(&theirs.roots[0]));
}

#[test]
fn a_file_may_be_read_only_and_reached_through_a_link() {
    let (pki, links) = (Pki::new(), folder());
    set_mode(&pki.edge(), 0o400);
    let link = links.path().join("edge.pem");
    std::os::unix::fs::symlink(pki.edge(), &link).expect("a link");
    load_bundle_at(&link, Role::Edge, NOW).expect("what the link names is private");
}

#[test]
fn a_bundle_is_good_from_its_first_second_to_its_last() {
    let pki = Pki::new();
    let path = pki.node("gpu-a");
    let node = load_bundle_at(&path, Role::Node, NOW).expect("it loads");
    for time in [node.not_before, node.not_after] {
        load_bundle_at(&path, Role::Node, time).expect("still within");
    }
    for time in [node.not_before - 1, node.not_after + 1] {
        load_bundle_at(&path, Role::Node, time).expect_err("a second outside");
    }
}

#[test]
fn without_a_time_the_machines_clock_decides() {
    let pki = Pki::new();
    // 90 days around a time that is either past or still to come.
    let by_clock =
        load_bundle(&pki.edge(), Role::Edge).map(|edge| edge.not_after).map_err(|error| error.to_string());
    let by_time = load_bundle_at(&pki.edge(), Role::Edge, now()).map(|edge| edge.not_after);
    assert_eq!(by_clock.is_ok(), by_time.is_ok(), "{by_clock:?}");

    let folder = folder();
    let dir = folder.path().join("pki");
    iop_certs::init(&dir, &iop_certs::InitOptions::default(), now()).expect("an authority of today");
    load_bundle(&dir.join("edge.pem"), Role::Edge).expect("good today");
}

#[test]
fn an_identity_can_be_copied_and_shown_and_its_key_is_never_seen() {
    let pki = Pki::new();
    let node = load_bundle_at(&pki.node("gpu-a"), Role::Node, NOW).expect("it loads");
    let copy = node.clone();
    assert_eq!(copy.key, node.key);
    assert_eq!((copy.chain, copy.serial.as_str()), (node.chain.clone(), node.serial.as_str()));

    let shown = format!("{node:?} {node:#?}");
    for part in ["gpu-a", "edge.iop", &node.serial] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    let PrivateKeyDer::Pkcs8(key) = &node.key else { panic!("iop writes PKCS#8") };
    // Every run of four bytes, as Debug and as hexadecimal would print them.
    for window in key.secret_pkcs8_der().windows(4) {
        assert!(!shown.contains(&format!("{window:?}")), "key bytes in {shown}");
        let hex: String = window.iter().map(|byte| format!("{byte:02x}")).collect();
        let in_serial = node.serial.contains(&hex);
        assert!(in_serial || !shown.contains(&hex), "key bytes in {shown}");
    }
}
