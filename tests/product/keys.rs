//! A certificate file that does not work ends edge and node with exit code 4 and a line that names the file, what is wrong
//! with it and what to do. So does a revocation that cannot be.

use crate::lab::{Site, assert_failed};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

/// What is done to the file, and the words of the message.
const CASES: [(&str, &[&str]); 4] = [
    ("open to others", &["open to other users (mode 0644)", "chmod 600"]),
    ("missing", &["no such file", "iop certs"]),
    ("garbage", &["holds no private key"]),
    ("damaged", &["is damaged", "issue it again"]),
];

fn spoil(site: &Site, how: &str, file: &str) {
    let path = site.path(file);
    match how {
        "open to others" => {
            std::fs::set_permissions(path, Permissions::from_mode(0o644)).expect("the file is ours")
        }
        "missing" => std::fs::remove_file(path).expect("the file is there"),
        "garbage" => std::fs::write(path, "\u{1}garbage\n").expect("the file is ours"),
        _ => {
            let text = std::fs::read_to_string(&path).expect("the file is text");
            let key = text.replacen("-----\nM", "-----\n%", 1);
            assert_ne!(key, text, "a key or certificate in PEM begins with M");
            std::fs::write(path, key).expect("the file is ours");
        }
    }
}

#[tokio::test]
async fn an_edge_whose_key_cannot_be_used_says_why_and_exits_4() {
    for (how, words) in CASES {
        let site = Site::new().await;
        site.write_edge();
        spoil(&site, how, "pki/edge.pem");
        let finished = site.run(&["edge", "--config", "edge.yaml"]).await;
        assert_failed(&finished, 4, &[&["pki/edge.pem"], words].concat());
    }
}

// [node-connectivity-supervision]
#[tokio::test]
async fn a_node_whose_key_cannot_be_used_says_why_and_exits_4_without_a_dial() {
    for (how, words) in CASES {
        let site = Site::new().await;
        // Nothing listens on port 9: a dial would end with another code, after seconds.
        site.write_node("127.0.0.1:9", "pki/gpu-a.pem");
        spoil(&site, how, "pki/gpu-a.pem");
        let finished = site.run(&["node", "--config", "node.yaml"]).await;
        assert_failed(&finished, 4, &[&["certificate does not work", "pki/gpu-a.pem"], words].concat());
    }
}

// [certs]
#[tokio::test]
async fn what_to_revoke_is_named_in_one_way_and_the_list_says_it_once() {
    let site = Site::new().await;
    let issued = site.run(&["certs", "issue", "--node", "gpu-b"]).await.expect_success("certs issue").stdout;
    let serial = issued.iter().find_map(|line| line.strip_prefix("its serial number is ")).expect("its line");
    let revoke = ["certs", "revoke", "--serial", serial];
    let revoked = site.run(&revoke).await.expect_success("certs revoke").stdout;
    assert_eq!(revoked[0], format!("added to pki/revoked: serial {serial}"));
    let list = std::fs::read_to_string(site.path("pki/revoked")).expect("the list");
    assert_eq!(
        list.lines().filter(|line| line.starts_with(&format!("serial {serial} "))).count(),
        1,
        "{list}"
    );
    let again = site.run(&revoke).await.expect_success("certs revoke").stdout;
    assert_eq!(again, ["pki/revoked has it already, nothing was changed"]);
    let unknown =
        site.run(&["certs", "revoke", "--node", "gpu-z"]).await.expect_success("certs revoke").stdout;
    assert!(unknown.iter().any(|line| line.contains("is `gpu-z` the node's id?")), "{unknown:?}");

    let cases: [(&[&str], i32, &[&str]); 6] = [
        (&[], 2, &["--node <ID>", "--serial <HEX>", "--bundle <FILE>"]),
        (&["--node", "gpu-a", "--serial", serial], 2, &["cannot be used with"]),
        (&["--serial", "0x12"], 2, &["hexadecimal digits"]),
        (&["--node", "gpu_a"], 2, &["a node id has only"]),
        (&["--bundle", "pki/edge.pem"], 4, &["pki/edge.pem", "exactly one is needed"]),
        (&["--node", "gpu-a", "--dir", "."], 4, &["neither root.pem nor edge.pem"]),
    ];
    for (arguments, code, words) in cases {
        assert_failed(&site.run(&[&["certs", "revoke"], arguments].concat()).await, code, words);
    }
    let kept = std::fs::read_to_string(site.path("pki/revoked")).expect("the list");
    assert!(kept.starts_with(&list) && !kept.contains("gpu-a"), "{kept}");
}

#[tokio::test]
async fn an_edge_without_its_folder_of_certificates_is_told_how_to_make_it() {
    let site = Site::empty();
    site.write_edge();
    let finished = site.run(&["edge", "--config", "edge.yaml"]).await;
    assert_failed(&finished, 4, &["pki/edge.pem", "no such file", "iop certs init"]);
}
