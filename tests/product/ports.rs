//! A port that another program has is an error at once: which setting, which address, exit code 1.

use crate::lab::{Site, assert_failed};
use std::net::{SocketAddr, TcpListener, UdpSocket};

async fn edge_fails(site: &Site, setting: &str, address: SocketAddr, shown: &str) {
    let finished = site.run(&["edge", "--config", "edge.yaml"]).await;
    assert_failed(&finished, 1, &["iop: cannot listen on", shown, setting, "Address already in use"]);
    assert_eq!(finished.stderr.len(), 1, "{address}: one line says it all: {finished:#?}");
}

#[tokio::test]
async fn an_edge_whose_http_port_is_taken_names_the_setting_and_the_address_and_exits_1() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound");
    let site = Site::new().await;
    site.write_edge_at(&address.to_string(), "127.0.0.1:0", "127.0.0.1:0");
    edge_fails(&site, "(http.listen)", address, &address.to_string()).await;
}

#[tokio::test]
async fn an_edge_whose_admin_port_is_taken_names_the_setting_and_the_address_and_exits_1() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound");
    let site = Site::new().await;
    site.write_edge_at("127.0.0.1:0", &address.to_string(), "127.0.0.1:0");
    edge_fails(&site, "(admin.listen)", address, &address.to_string()).await;
}

#[tokio::test]
async fn an_edge_whose_udp_port_is_taken_names_the_setting_and_the_address_and_exits_1() {
    let taken = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound");
    let site = Site::new().await;
    // The example's form, on all addresses of both families, conflicts with one of IPv4 too.
    for listen in [address.to_string(), format!("[::]:{}", address.port())] {
        site.write_edge_at("127.0.0.1:0", "127.0.0.1:0", &listen);
        edge_fails(&site, "(quic.listen)", address, &format!("UDP {listen}")).await;
    }
}

#[tokio::test]
async fn a_demo_whose_port_is_taken_says_which_and_exits_1() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound").to_string();
    for (options, setting) in [
        (["--http", &address, "--admin", ":0"], "(http.listen)"),
        (["--http", ":0", "--admin", &address], "(admin.listen)"),
    ] {
        let args = [&["demo", "--quic", ":0"][..], &options].concat();
        let finished = Site::empty().run(&args).await;
        assert_failed(&finished, 1, &["cannot listen on", &address, setting, "Address already in use"]);
    }
}
