//! Connections of clients: how many there may be, which of them make room for others, and that the process never runs out of
//! open files for them.

use crate::bounds::{shut_window, sockets};
use crate::lab::{DEADLINE, IOP, Lab, MODELS, Sent, chat, plan};
use iop_tests::deadline::{wait_until, wait_until_async};
use iop_tests::deployment::{Deployment, Plan};
use iop_tests::engine::{Engine, Script};
use iop_tests::http::{Call, Connection, RawConnection, send};
use serde_json::json;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// Connections that these edges may have.
const CONNECTIONS: usize = 4;

const WAITS: &str = "every connection there may be has a request: new ones wait";

const KEY: &str = "clients-secret-2b9e";

fn few(plan: Plan) -> Plan {
    plan.edge_value("/http/max_connections", json!(CONNECTIONS))
}

async fn wait_said(lab: &Lab, words: &str) {
    wait_until(words, DEADLINE, || {
        let lines = [lab.edge.stdout(), lab.edge.stderr()].concat();
        if lines.iter().any(|line| line.contains(words)) { Ok(()) } else { Err(lines) }
    })
    .await;
}

#[tokio::test]
async fn connections_that_ask_for_nothing_make_room_for_those_that_do() {
    let engine = Engine::start();
    let lab = Lab::start(few(plan(&engine, 1))).await;
    let before = sockets(&lab.edge);
    // Who asks now and then is not the one where nothing has happened for longest.
    let mut asks = Connection::open(lab.http).await.expect("connected");
    let mut silent = Vec::new();
    for number in 0..20 * CONNECTIONS {
        let mut connection = RawConnection::open(lab.http).await.expect("connected");
        connection.send(if number % 2 == 0 { "" } else { "POST /v1/chat" }).await.expect("sent");
        silent.push(connection);
        if number % 2 == 0 {
            assert_eq!(asks.send(chat(MODELS[0], "asks")).await.expect("its connection stays").status, 200);
        }
        assert_eq!(lab.send(Call::get("/v1/models")).answer().await.status, 200);
    }
    let first = tokio::time::timeout(DEADLINE, silent[0].read_to_end()).await.expect("closed early");
    assert_eq!(first.expect("an orderly end"), "");
    wait_until_async("as many connections as there may be", DEADLINE, async || {
        let held = sockets(&lab.edge) - before;
        if held <= CONNECTIONS { Ok(()) } else { Err(held) }
    })
    .await;
}

// [lease-lifecycle]
#[tokio::test]
async fn a_running_or_waiting_request_is_never_cut_for_a_newcomer_who_waits_until_one_has_ended() {
    let engine = Engine::start();
    let lab = Lab::start(few(plan(&engine, 2))).await;
    engine.hold();
    let mut sent = Vec::new();
    for number in 0..CONNECTIONS {
        let call = chat(MODELS[number % 2], &number.to_string());
        sent.push(if number < 2 { lab.occupy(&engine, call).await } else { lab.enqueue(call).await });
    }
    let newcomers: Vec<Sent> = (0..3).map(|_| lab.send(Call::get("/v1/models"))).collect();
    wait_said(&lab, WAITS).await;
    let snapshot = lab.snapshot().await;
    assert_eq!((&snapshot["leases"]["active"], &snapshot["queue"]["length"]), (&json!(2), &json!(2)));
    assert!(newcomers.iter().chain(&sent).all(Sent::is_pending));

    // One ended request is room enough for one newcomer after the other.
    engine.release_one();
    for newcomer in newcomers {
        assert_eq!(newcomer.answer().await.status, 200);
    }
    engine.release_all();
    for sent in sent {
        assert_eq!(sent.answer().await.status, 200);
    }
    lab.wait_for_rest().await;
}

/// Connects with room for little that was not read.
async fn connect_narrow(address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(16 << 10).expect("it can be small");
    socket.connect(address).await.expect("the edge listens")
}

#[tokio::test]
async fn an_answer_arrives_whole_at_a_slow_client_while_newcomers_press_for_its_place() {
    // More than the system takes for this client.
    const BYTES: usize = 1 << 20;
    let engine = Engine::start();
    let lab = Lab::start(plan(&engine, 1).edge_value("/http/max_connections", json!(1))).await;
    engine.set_script(Script::body("x".repeat(BYTES)));
    let mut slow = connect_narrow(lab.http).await;
    let body = chat(MODELS[0], "slow").pieces.concat();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: edge\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    slow.write_all(&[head.as_bytes(), &body].concat()).await.expect("sent");
    engine.wait_received(1, DEADLINE).await;
    let newcomers: Vec<Sent> = (0..3).map(|_| lab.send(Call::get("/v1/models"))).collect();
    wait_said(&lab, WAITS).await;
    // Slower than the edge, until the run has ended.
    let mut answer = Vec::new();
    while lab.snapshot().await["leases"]["released_total"] == 0 {
        let read = tokio::time::timeout(DEADLINE, (&mut slow).take(8 << 10).read_to_end(&mut answer)).await;
        read.expect("it goes on").expect("an answer");
    }
    let read = tokio::time::timeout(DEADLINE, slow.read_to_end(&mut answer)).await;
    read.expect("its place is needed then").expect("an orderly end");
    let body = answer.windows(4).position(|end| end == b"\r\n\r\n").expect("a head") + 4;
    assert_eq!(answer.len() - body, BYTES);
    for newcomer in newcomers {
        assert_eq!(newcomer.answer().await.status, 200);
    }
}

#[tokio::test]
async fn who_shows_no_key_keeps_no_place_however_long_the_refusal_takes() {
    let engine = Engine::start();
    let keys = json!({"keys": [{"name": "bob", "key": KEY}]});
    let lab = Lab::start(few(plan(&engine, 1)).edge_value("/auth", keys)).await;
    let mut stuck = Vec::new();
    for _ in 0..5 * CONNECTIONS {
        // One takes nothing of its refusal, the other sends nothing of its body.
        let body = "POST /v1/chat/completions HTTP/1.1\r\nhost: edge\r\ncontent-length: 1000\r\n\r\n";
        for bytes in [shut_window("/v1/models"), body.into()] {
            let mut connection = RawConnection::open(lab.http).await.expect("connected");
            connection.send(bytes).await.expect("sent");
            stuck.push(connection);
        }
        let call = chat(MODELS[0], "has a key").header("x-api-key", KEY);
        let answer = tokio::time::timeout(DEADLINE, send(lab.http, call)).await.expect("answered in time");
        assert_eq!(answer.expect("an answer").status, 200);
    }
}

/// A program that runs the built one with another limit of open files.
fn limited(name: &str, limit: &str) -> std::path::PathBuf {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, format!("#!/bin/sh\nulimit {limit}\nexec '{IOP}' \"$@\"\n"))
        .expect("the folder is ours");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("the file is ours");
    path
}

/// The soft limit of open files of a running process.
fn open_files(process: u32) -> u64 {
    let limits = std::fs::read_to_string(format!("/proc/{process}/limits")).expect("it runs");
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).expect("its line");
    line.split_whitespace().next().expect("the soft one").parse().expect("a number")
}

#[tokio::test]
async fn an_edge_that_may_not_have_so_many_files_open_says_so_and_serves_within_what_there_is() {
    let iop = Deployment::start_edge(limited("iop-few-files", "-n 150"), Plan::new()).await;
    let lines = [iop.edge.stdout(), iop.edge.stderr()].concat();
    let says = "at most 22 clients can be connected; give it 4224";
    assert!(lines.iter().any(|line| line.contains(says) && line.contains("open_files=150")), "{lines:#?}");

    let mut silent = Vec::new();
    for number in 0..300 {
        silent.push(RawConnection::open(iop.http).await.expect("connected"));
        if number % 20 == 0 {
            assert_eq!(send(iop.http, Call::get("/v1/models")).await.expect("an answer").status, 200);
            iop.snapshot().await;
        }
    }
    let lines = [iop.edge.stdout(), iop.edge.stderr()].concat();
    assert!(!lines.iter().any(|line| line.contains("cannot accept")), "{lines:#?}");
}

#[tokio::test]
async fn an_edge_raises_its_own_limit_of_open_files_where_it_may() {
    let iop = Deployment::start_edge(limited("iop-soft-files", "-Sn 150"), Plan::new()).await;
    assert_eq!(open_files(iop.edge.id()), 4096 + 128);
    let lines = [iop.edge.stdout(), iop.edge.stderr()].concat();
    assert!(!lines.iter().any(|line| line.contains("can be connected")), "{lines:#?}");
}
