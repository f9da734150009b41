//! Many connections with one good certificate: in a row, and at once.

use crate::fake_node::{Dialer, assert_code};
use crate::site::{HONEST, HOSTILE, Site};
use iop_transport::ConnectionError;
use iop_transport::codes::CloseCode;

/// Connections of one identity that may be on their way to a registration.
const PLACES: usize = 8;

#[tokio::test]
async fn a_thousand_registrations_in_a_row_cost_a_few_lines_and_leave_nothing() {
    let site = Site::start().await;
    let dialer = Dialer::new(&site.deployment, HOSTILE);
    for number in 0..1000_u32 {
        // Every third has said nothing when it goes, every other one is in force.
        match number % 3 {
            0 => dialer.connect().await.expect("the handshake is good").close(number.into(), b"bye"),
            1 => dialer.serve(number.to_be_bytes()[3]).await.connection.close(number.into(), b"bye"),
            _ => {
                let node = dialer.register(number.to_be_bytes()[3]).await.expect("a Welcome");
                node.connection.close(number.into(), b"bye");
            }
        }
    }
    let about = |line: &&String| line.contains(HOSTILE) && line.contains("node ");
    let lines = site.deployment.edge.stderr().iter().filter(about).count();
    println!("measured: {lines} lines about 1,000 connections");
    assert!(lines < 200, "{lines} lines about 1,000 connections");
    site.assert_unharmed().await;
}

// [disconnect-exclusion]
#[tokio::test]
async fn many_with_the_certificate_of_a_live_node_do_not_take_its_place_however_many_they_are() {
    let site = Site::start().await;
    let dialer = Dialer::new(&site.deployment, HONEST);
    let before = site.node(HONEST).await["generation"].clone();
    for _ in 0..3 {
        let mut all = tokio::task::JoinSet::new();
        let dialer = std::sync::Arc::new(Dialer::new(&site.deployment, HONEST));
        for instance in 0..60_u8 {
            let dialer = dialer.clone();
            all.spawn(async move { dialer.register(instance).await.map(drop) });
        }
        let mut told = 0;
        while let Some(refused) = all.join_next().await {
            let error = refused.expect("it ends").expect_err("the place is taken");
            // A handshake among so many may take longer than it may, and fails.
            if matches!(error, ConnectionError::ApplicationClosed(_)) {
                assert_code("a second process", &error, CloseCode::Duplicate);
                told += 1;
            }
        }
        assert!(told >= 10, "only {told} of 60 came far enough to be told");
    }
    drop(dialer);
    let node = site.node(HONEST).await;
    assert_eq!((&node["connected"], &node["generation"]), (&true.into(), &before), "{node}");
    site.assert_unharmed().await;
}

#[tokio::test]
async fn few_connections_of_one_identity_may_be_silent_at_once() {
    let site = Site::start().await;
    let dialer = Dialer::new(&site.deployment, HOSTILE);
    let mut silent = Vec::new();
    for _ in 0..50 {
        silent.push(dialer.connect().await.expect("the handshake is good"));
    }
    let (mut late, mut many) = (0, 0);
    for connection in &silent {
        match crate::fake_node::closed(connection).await {
            ConnectionError::ApplicationClosed(close) => match CloseCode::from_wire(close.error_code) {
                Some(CloseCode::HelloTimeout) => late += 1,
                Some(CloseCode::Duplicate) => many += 1,
                other => panic!("{other:?}"),
            },
            other => panic!("{other}"),
        }
    }
    assert_eq!((late, many), (PLACES, silent.len() - PLACES));
    // There is room again.
    let node = dialer.serve(1).await;
    drop(node);
    site.assert_unharmed().await;
}
