//! What a node with a good certificate may do wrong on its control stream and beside it.

use crate::fake_node::{Dialer, Node, assert_closed, assert_code, closed};
use crate::site::{DEADLINE, HOSTILE, Site};
use iop_tests::deadline::wait_until_async;
use iop_transport::Connection;
use iop_transport::codes::CloseCode;
use iop_transport::session::say_hello;
use iop_transport::wire::{
    self, Applied, CONTROL_FRAME_BYTES, Hello, NodeMessage, PROTOCOL, RefusedProvider, TEXT_BYTES,
};
use serde_json::json;
use std::time::Duration;
use tokio::time::timeout;

/// A terminal's orders, and a line end that would forge a line.
const NASTY: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}\nforged line\u{9b}31m";

/// A frame that announces `length` bytes and holds these.
fn frame(length: u32, bytes: &[u8]) -> Vec<u8> {
    [&length.to_be_bytes()[..], bytes].concat()
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a small frame")
}

#[tokio::test]
async fn a_hello_that_is_none_ends_its_connection_and_nothing_else() {
    let site = Site::start().await;
    let dialer = Dialer::new(&site.deployment, HOSTILE);
    let version = PROTOCOL.to_be_bytes();
    let violation = CloseCode::ProtocolViolation;
    let cases: [(&str, Vec<u8>, CloseCode); 8] = [
        ("4 GiB announced", frame(u32::MAX, b"x"), violation),
        ("one byte over the limit", frame(length(TEXT_BYTES * 2 + 1), b"x"), violation),
        ("no bytes", frame(0, b""), violation),
        ("one byte", frame(1, b"x"), violation),
        ("another version", frame(4, &[0xff, 0xff, 1, 2]), CloseCode::ProtocolVersion),
        ("garbage", frame(6, &[&version[..], &[0xff; 4]].concat()), violation),
        ("more than a Hello", frame(22, &[&version[..], &[0; 20]].concat()), violation),
        (
            "text that is no UTF-8",
            frame(22, &[&version[..], &[0; 17], &[2, 0xff, 0xff][..]].concat()),
            violation,
        ),
    ];
    for (what, bytes, code) in cases {
        let connection = dialer.connect().await.expect("the handshake is good");
        let (mut send, _recv) = connection.open_bi().await.expect("a stream");
        send.write_all(&bytes).await.expect("it is written");
        assert_closed(what, &connection, code).await;
    }
    let connection = dialer.connect().await.expect("the handshake is good");
    let (mut send, _recv) = connection.open_bi().await.expect("a stream");
    send.write_all(&frame(100, b"half")).await.expect("it is written");
    send.finish().expect("it is open");
    assert_closed("half a Hello", &connection, violation).await;
    let connection = dialer.connect().await.expect("the handshake is good");
    let (mut send, _recv) = connection.open_bi().await.expect("a stream");
    send.write_all(b"x").await.expect("it is written");
    send.reset(7_u32.into()).expect("it is open");
    assert_closed("a reset Hello", &connection, violation).await;
    assert_eq!(site.node(HOSTILE).await["connected"], false);
    site.assert_unharmed().await;
}

#[tokio::test]
async fn who_does_not_say_hello_in_time_is_closed_however_it_does_not() {
    let site = Site::start().await;
    let dialer = Dialer::new(&site.deployment, HOSTILE);
    let silent = dialer.connect().await.expect("the handshake is good");
    let half_open = dialer.connect().await.expect("the handshake is good");
    let _opened = half_open.open_bi().await.expect("a stream");
    let slow = dialer.connect().await.expect("the handshake is good");
    let (mut send, _recv) = slow.open_bi().await.expect("a stream");
    let dripping = async {
        for byte in frame(1000, &[0; 100]) {
            if send.write_all(&[byte]).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::join!(
        dripping,
        assert_closed("silent", &silent, CloseCode::HelloTimeout),
        assert_closed("half open", &half_open, CloseCode::HelloTimeout),
        assert_closed("slow", &slow, CloseCode::HelloTimeout),
    );
    site.assert_unharmed().await;
}

/// Writes these bytes behind a good Hello, on a control stream that is otherwise as it should be.
async fn after_hello(dialer: &Dialer, bytes: &[u8]) -> Connection {
    let connection = dialer.connect().await.expect("the handshake is good");
    let (mut send, recv) = connection.open_bi().await.expect("a stream");
    let hello = Hello { instance: [7; 16], dial: 1, software: String::new() };
    let hello = wire::encode(&PROTOCOL.to_be_bytes(), &hello, TEXT_BYTES * 2).expect("a small Hello");
    send.write_all(&[&hello[..], bytes].concat()).await.expect("it is written");
    // Kept open: their end would be a problem of its own.
    tokio::spawn(async move {
        let _reading = recv;
        send.stopped().await
    });
    connection
}

#[tokio::test]
async fn control_messages_that_are_none_end_the_registration_and_nothing_else() {
    let site = Site::start().await;
    let dialer = Dialer::new(&site.deployment, HOSTILE);
    let hello = Hello { instance: [7; 16], dial: 2, software: String::new() };
    let hello = wire::encode(&PROTOCOL.to_be_bytes(), &hello, TEXT_BYTES * 2).expect("a small Hello");
    let trailing = frame(2, &[2, 2]);
    let many = frame(10, &[0, 1, 0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    let cases: [(&str, &[u8]); 6] = [
        ("4 GiB announced", &frame(u32::MAX, b"x")),
        ("one byte over the limit", &frame(length(CONTROL_FRAME_BYTES + 1), b"x")),
        ("an unknown message", &frame(1, &[200])),
        ("bytes behind a message", &trailing),
        ("a list of 2^64 refusals", &many),
        ("a second Hello", &hello),
    ];
    for (what, bytes) in cases {
        let connection = after_hello(&dialer, bytes).await;
        assert_closed(what, &connection, CloseCode::ProtocolViolation).await;
    }
    site.assert_unharmed().await;
}

#[tokio::test]
async fn messages_out_of_turn_and_floods_of_them_end_the_registration() {
    let site = Site::start().await;
    let dialer = Dialer::new(&site.deployment, HOSTILE);
    let applied = |revision| NodeMessage::Applied(Applied { revision, refused: Vec::new() });
    let cases: [(&str, Vec<NodeMessage>); 6] = [
        ("settings that were not sent", vec![applied(2)]),
        ("settings before all", vec![applied(0)]),
        ("the same settings again", vec![applied(1), applied(1)]),
        ("a Pong to no Ping", vec![NodeMessage::Pong { nonce: 1 }]),
        ("a Pong of the greatest number", vec![NodeMessage::Pong { nonce: u64::MAX }]),
        ("leaving twice", vec![NodeMessage::Leaving, NodeMessage::Leaving]),
    ];
    for (what, messages) in cases {
        let mut node = dialer.register(1).await.expect("a Welcome");
        for message in messages {
            // The edge may have closed before the last one.
            let _late = node.send.send(&message).await;
        }
        assert_closed(what, &node.connection, CloseCode::ProtocolViolation).await;
    }
    for flood in [applied(1), NodeMessage::Pong { nonce: 1 }, NodeMessage::Leaving] {
        let mut node = dialer.register(1).await.expect("a Welcome");
        let mut sent = 0;
        while node.send.send(&flood).await.is_ok() {
            sent += 1;
            assert!(sent < 1_000_000, "a flood goes on for ever");
        }
        assert_closed("a flood", &node.connection, CloseCode::ProtocolViolation).await;
    }
    site.assert_unharmed().await;
}

#[tokio::test]
async fn only_the_control_stream_may_be_opened_by_a_node() {
    let site = Site::start().await;
    let dialer = Dialer::new(&site.deployment, HOSTILE);
    let node = dialer.serve(1).await;
    let (mut second, _recv) = node.connection.open_bi().await.expect("a stream");
    second.write_all(b"a second control stream").await.expect("it is written");
    assert_closed("a second stream", &node.connection, CloseCode::ProtocolViolation).await;

    let mut node = dialer.serve(1).await;
    let short = Duration::from_millis(300);
    assert!(timeout(short, node.connection.open_uni()).await.is_err(), "no stream of one direction");
    assert!(node.connection.send_datagram(bytes::Bytes::from_static(b"x")).is_err(), "no datagrams");
    let mut opened = Vec::new();
    while let Ok(stream) = timeout(short, node.connection.open_bi()).await {
        opened.push(stream.expect("the connection stands"));
        assert!(opened.len() < 100, "streams without a bound");
    }
    assert!(!opened.is_empty(), "streams were opened, and nothing written on them");
    assert_eq!(site.node(HOSTILE).await["connected"], true, "what was not written is not seen");
    // The control stream itself goes on.
    node.send.send(&NodeMessage::Leaving).await.expect("the control stream stands");
    wait_until_async("the node to be seen leaving", DEADLINE, async || {
        let node = site.node(HOSTILE).await;
        if node["providers"][0]["effective_capacity"] == 0 { Ok(()) } else { Err(node) }
    })
    .await;
    drop(opened);
    assert_closed("dropped streams", &node.connection, CloseCode::ProtocolViolation).await;
    site.assert_unharmed().await;
}

#[tokio::test]
async fn an_ended_control_stream_ends_the_registration() {
    let mut site = Site::start().await;
    let dialer = Dialer::new(&site.deployment, HOSTILE);
    let node = dialer.serve(1).await;
    drop(node.send);
    assert_closed("a reset control stream", &node.connection, CloseCode::ProtocolViolation).await;
    // A stream that is not read is found out when there is something to say.
    let node = dialer.serve(1).await;
    drop(node.recv);
    site.refresh(|edge| edge["nodes"][1]["providers"][0]["capacity"] = json!(3)).await;
    assert_closed("a stopped control stream", &node.connection, CloseCode::ProtocolViolation).await;
    site.assert_unharmed().await;
}

#[tokio::test]
async fn a_node_that_gives_no_room_for_a_word_is_not_in_force_and_its_place_is_not_lost_to_it() {
    let mut site = Site::start().await;
    let narrow = Dialer::with_window(&site, HOSTILE, 8);
    let connection = narrow.connect().await.expect("the handshake is good");
    let hello = Hello { instance: [1; 16], dial: 1, software: String::new() };
    let (mut send, _recv) = say_hello(&connection, &hello).await.expect("it is written");
    let applied = NodeMessage::Applied(Applied { revision: 1, refused: Vec::new() });
    send.send(&applied).await.expect("it is written");
    wait_until_async("the node to be registered", DEADLINE, async || {
        let node = site.node(HOSTILE).await;
        if node["connected"] == true { Ok(()) } else { Err(node) }
    })
    .await;
    for capacity in 3..40 {
        site.refresh(|edge| edge["nodes"][1]["providers"][0]["capacity"] = json!(capacity)).await;
    }
    assert_eq!(site.node(HOSTILE).await["providers"][0]["effective_capacity"], 0);
    let node = Dialer::new(&site.deployment, HOSTILE).serve(2).await;
    assert_closed("who answers no Ping", &connection, CloseCode::Superseded).await;
    drop(node);
    site.assert_unharmed().await;
}

#[tokio::test]
async fn a_node_may_refuse_what_it_was_given_and_its_lies_about_the_rest_are_not_listened_to() {
    let site = Site::start().await;
    let dialer = Dialer::new(&site.deployment, HOSTILE);
    let mut node = dialer.register(1).await.expect("a Welcome");
    let refused = |id: String| RefusedProvider { id, reason: NASTY.repeat(3) };
    let mut lies: Vec<RefusedProvider> =
        (0..7000).map(|number| refused(format!("{NASTY}{number}"))).collect();
    lies.extend((0..100).map(|_| refused("two".to_owned())));
    node.send
        .send(&NodeMessage::Applied(Applied { revision: 1, refused: lies }))
        .await
        .expect("it is written");
    wait_until_async("one provider in force and one refused", DEADLINE, async || {
        let node = site.node(HOSTILE).await;
        let capacity = |place: usize| node["providers"][place]["effective_capacity"].as_u64().unwrap_or(99);
        if capacity(0) > 0 && capacity(1) == 0 { Ok(()) } else { Err(node) }
    })
    .await;
    let said = || site.deployment.edge.stderr().iter().filter(|it| it.contains("will not run")).count();
    let line = async || if said() > 0 { Ok(()) } else { Err("nothing is said yet") };
    wait_until_async("a line of the refused provider", DEADLINE, line).await;
    assert_eq!(said(), 1, "one line for the one provider that is refused");
    node.connection.close(0x1234_u32.into(), NASTY.repeat(20).as_bytes());
    site.assert_unharmed().await;
}

#[tokio::test]
async fn a_node_s_name_for_itself_reaches_no_terminal_as_an_order() {
    let site = Site::start().await;
    let dialer = Dialer::new(&site.deployment, HOSTILE);
    let connection = dialer.connect().await.expect("the handshake is good");
    let hello = Hello { instance: [1; 16], dial: 1, software: NASTY.repeat(10) };
    let (_send, mut recv) = say_hello(&connection, &hello).await.expect("it is written");
    recv.recv().await.expect("a Welcome");
    let software = site.node(HOSTILE).await["software"].as_str().expect("a name").to_owned();
    assert!(software.contains("owned"), "{software:?}");
    assert!(!software.chars().any(char::is_control), "{software:?}");
    connection.close(0_u32.into(), NASTY.as_bytes());
    let reason = closed(&connection).await;
    assert!(matches!(reason, iop_transport::ConnectionError::LocallyClosed), "{reason}");
    site.assert_unharmed().await;
}

#[tokio::test]
async fn an_identity_that_the_edge_does_not_know_costs_a_handshake() {
    let site = Site::start().await;
    site.deployment
        .run(&["certs", "issue", "--dir", "pki", "--node", "nobody"])
        .await
        .expect_success("issue");
    let dialer = Dialer::new(&site.deployment, "nobody");
    for instance in 0..100 {
        let error = dialer.register(instance).await.err().expect("no Welcome");
        assert_code("an unknown node", &error, CloseCode::UnknownNode);
    }
    let node = Node::of(&site).await;
    assert!(site.deployment.edge.stderr().iter().filter(|line| line.contains("nobody")).count() <= 25);
    drop(node);
    site.assert_unharmed().await;
}
