//! The list of revoked certificates as a file: what is an entry, what makes a list bad, and how that is said.

use std::fs;
use std::path::Path;

use iop_certs::{PeerNode, Revocations, RevocationsError};

use crate::made::{NOW, folder, node_id, private};

fn parse(text: &[u8]) -> Result<Revocations, RevocationsError> {
    Revocations::parse(Path::new("pki"), text)
}

/// A peer whose certificate was issued at `issued`.
fn peer(node: &str, issued: i64, serial: &str) -> PeerNode {
    let not_before = issued - 600;
    PeerNode { node_id: node_id(node), not_before, not_after: i64::MAX, serial: serial.to_owned() }
}

#[test]
fn entries_stand_one_a_line_with_comments_spaces_and_line_ends_of_any_system() {
    let text = b"# all of it\r\n\r\n  node gpu-a   until 2027-01-15T08:00:00Z # lost\r\n\tserial 4F:0A\r\n\
        node gpu-a until 2020-01-01T00:00:00Z\nnode gpu-b until 2020-01-01T00:00:00Z";
    let list = parse(text).expect("a good list");
    assert_eq!((list.nodes(), list.serials()), (2, 1));
    assert!(list.revokes(&peer("gpu-a", NOW, "01")), "the last second of the latest entry");
    assert!(!list.revokes(&peer("gpu-a", NOW + 1, "01")), "the second after it");
    assert!(!list.revokes(&peer("gpu-b", NOW, "01")), "another node's time");
    assert!(list.revokes(&peer("gpu-c", NOW, "4f0a")), "whatever its node");
    assert!(!list.revokes(&peer("gpu-c", NOW, "4f0b")) && !list.revokes(&peer("gpu-c", NOW, "0a")));
    assert!(
        list.revokes(&peer("gpu-a", i64::MIN + 600, "01")) && !list.revokes(&peer("gpu-a", i64::MAX, "01"))
    );
    for empty in ["", "\n", "# nobody\n", "   \n\t"] {
        assert_eq!(parse(empty.as_bytes()).expect("a good list"), Revocations::default(), "{empty:?}");
    }
}

#[test]
fn one_bad_line_makes_the_list_bad_and_is_named() {
    let bad: [(&[u8], &str); 15] = [
        (b"garbage", "neither `node ID until TIME` nor `serial HEX`"),
        (b"node", "neither"),
        (b"node gpu-a", "neither"),
        (b"node gpu-a until", "neither"),
        (b"node gpu-a before 2027-01-15T08:00:00Z", "neither"),
        (b"node gpu-a until 2027-01-15T08:00:00Z now", "neither"),
        (b"NODE gpu-a until 2027-01-15T08:00:00Z", "neither"),
        (b"node GPU until 2027-01-15T08:00:00Z", "a node id has only"),
        (b"node gpu-a until tomorrow", "\"tomorrow\" is no time such as"),
        (b"node gpu-a until 2027-01-15", "is no time such as"),
        (b"serial", "neither"),
        (b"serial 4f 0a", "neither"),
        (b"serial 0x4f", "hexadecimal digits"),
        (b"serial \xff", "not UTF-8"),
        (b"\x1b[2J\0", "\\u{1b}[2J\\u{0}"),
    ];
    for (line, words) in bad {
        let text = [b"serial 4f\n# fine\n", line, b"\nserial 5f\n"].concat();
        let error = parse(&text).expect_err("a bad line");
        assert!(matches!(error, RevocationsError::Line { line: 3, .. }), "{error}");
        let said = error.to_string();
        assert!(said.starts_with("pki/revoked: line 3: ") && said.contains(words), "{words}: {said}");
        assert!(!said.contains(|c: char| c.is_control()) && said.len() < 300, "{said:?}");
    }
    let long = "x".repeat(1 << 19);
    assert!(parse(long.as_bytes()).expect_err("a bad line").to_string().len() < 300, "a long line is cut");
}

#[test]
fn no_list_is_told_apart_from_one_that_cannot_be_read() {
    let folder = folder();
    let path = folder.path().join("revoked");
    let load = || Revocations::load(folder.path());
    assert_eq!(load().expect("that is no error"), None);
    private(&path, "");
    assert_eq!(load().expect("a good list"), Some(Revocations::default()));
    private(&path, "#".repeat(1 << 20));
    assert_eq!(load().expect("the largest list"), Some(Revocations::default()));
    private(&path, "#".repeat((1 << 20) + 1));
    assert!(matches!(load(), Err(RevocationsError::TooLarge { .. })));
    fs::remove_file(&path).expect("it was there");
    fs::create_dir(&path).expect("a folder in its place");
    let error = load().expect_err("no file");
    assert!(matches!(error, RevocationsError::Unreadable { .. }), "{error}");
    assert!(error.to_string().contains("not a regular file"), "{error}");
}
