//! The client API over TLS: both versions of HTTP by ALPN, and certificates that change while the edge runs.

use crate::lab::{DEADLINE, IOP, chat, connect, deploy, http2, plan, request, text};
use iop_tests::deadline::{wait_until, wait_until_async};
use iop_tests::deployment::Plan;
use iop_tests::engine::Engine;
use iop_tests::process::Program;
use serde_json::json;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};

/// A certificate for `localhost` of its own signing, in two files of this folder.
fn write_certificate(folder: &Path) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    std::fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).expect("written");
    std::fs::write(folder.join("cert.pem"), made.cert.pem()).expect("written");
    made.cert.der().clone()
}

fn with_tls(plan: Plan, folder: &Path) -> Plan {
    plan.edge_value("/http/tls", json!({"cert": folder.join("cert.pem"), "key": folder.join("key.pem")}))
}

/// A connection to whoever has this certificate, with these protocols offered.
async fn dial(
    address: SocketAddr,
    trusted: &CertificateDer<'static>,
    protocols: &[&str],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).expect("a certificate");
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider knows TLS")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    let name = "localhost".try_into().expect("a name");
    TlsConnector::from(Arc::new(config)).connect(name, connect(address).await).await
}

#[tokio::test]
async fn clients_get_the_version_of_http_that_they_ask_for() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let certificate = write_certificate(folder.path());
    let engine = Engine::start();
    let iop = deploy(with_tls(plan(&engine, 1), folder.path())).await;
    let stream = dial(iop.http, &certificate, &["h2", "http/1.1"]).await.expect("a connection");
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let mut sender = http2(stream, 1 << 20).await;
    let answer = request(&mut sender, "POST", "/v1/chat/completions", chat(true).to_string()).await;
    assert!(text(answer).await.ends_with("data: [DONE]\n\n"));
    for (offered, chosen) in [(&["http/1.1"][..], Some(&b"http/1.1"[..])), (&[], None)] {
        let mut stream = dial(iop.http, &certificate, offered).await.expect("a connection");
        assert_eq!(stream.get_ref().1.alpn_protocol(), chosen);
        let request = "GET /v1/models HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer with an orderly end");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    }
    iop.shut_down().await;
}

#[tokio::test]
async fn a_connection_that_is_kept_makes_room_for_a_newcomer() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let certificate = write_certificate(folder.path());
    let engine = Engine::start();
    let plan = with_tls(plan(&engine, 1), folder.path()).edge_value("/http/max_connections", json!(1));
    let iop = deploy(plan).await;
    let mut kept = Vec::new();
    for _ in 0..3 {
        let mut stream = dial(iop.http, &certificate, &[]).await.expect("a connection");
        stream.write_all(b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("sent");
        let mut start = [0; 15];
        let read = tokio::time::timeout(DEADLINE, stream.read_exact(&mut start)).await;
        read.expect("answered in time").expect("an answer");
        assert_eq!(&start, b"HTTP/1.1 200 OK");
        kept.push(stream);
    }
    iop.shut_down().await;
}

#[tokio::test]
async fn a_client_without_tls_is_cut_and_one_that_says_nothing_holds_nobody_up() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let certificate = write_certificate(folder.path());
    let engine = Engine::start();
    let iop = deploy(with_tls(plan(&engine, 1), folder.path())).await;
    let _silent = connect(iop.http).await;
    let mut plain = connect(iop.http).await;
    plain.write_all(b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("sent");
    let mut answer = Vec::new();
    // Whether it ends orderly or by a reset is the system's affair.
    let _end = tokio::time::timeout(DEADLINE, plain.read_to_end(&mut answer)).await.expect("an end in time");
    assert!(!answer.starts_with(b"HTTP/"), "{answer:?}");
    dial(iop.http, &certificate, &[]).await.expect("a connection");
    iop.shut_down().await;
}

// [certs]
#[tokio::test]
async fn a_changed_certificate_is_taken_and_a_bad_one_leaves_the_last_in_use() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let first = write_certificate(folder.path());
    let engine = Engine::start();
    let iop = deploy(with_tls(plan(&engine, 1), folder.path())).await;
    let open = dial(iop.http, &first, &["h2"]).await.expect("a connection");
    let mut sender = http2(open, 1 << 20).await;

    let second = write_certificate(folder.path());
    wait_until_async("the second certificate in use", DEADLINE, async || {
        dial(iop.http, &second, &[]).await.map(drop).map_err(|error| error.to_string())
    })
    .await;
    let answer = request(&mut sender, "GET", "/v1/models", "").await;
    assert_eq!(answer.status(), 200, "connections stay");

    std::fs::write(folder.path().join("key.pem"), "no key").expect("written");
    let said = |what: &str| {
        let lines = iop.edge.stderr();
        if lines.iter().any(|line| line.contains(what)) { Ok(()) } else { Err(lines) }
    };
    wait_until("the edge to say what is wrong", DEADLINE, || said("no private key in PEM in")).await;
    dial(iop.http, &second, &[]).await.expect("the last good certificate");
    let third = write_certificate(folder.path());
    wait_until_async("the third certificate in use", DEADLINE, async || {
        dial(iop.http, &third, &[]).await.map(drop).map_err(|error| error.to_string())
    })
    .await;
    iop.shut_down().await;
}

#[tokio::test]
async fn an_edge_whose_certificate_cannot_be_used_does_not_start_and_says_why() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let here = folder.path();
    let program = |args: &[&str]| Program::new(IOP).named("iop").args(args).directory(here);
    program(&["certs", "init", "--dir", "pki"]).run(DEADLINE).await.expect_success("certs init");
    write_certificate(here);
    let file = json!({"certs": {"dir": "pki"}, "http": {"listen": "127.0.0.1:0", "tls": {"cert": "cert.pem", "key": "key.pem"}},
        "admin": {"listen": "127.0.0.1:0"}, "quic": {"listen": "127.0.0.1:0"}});
    std::fs::write(here.join("edge.yaml"), file.to_string()).expect("written");
    for (name, text, problem) in [
        ("cert.pem", "no certificate", "no certificates in PEM in"),
        ("key.pem", "no key", "no private key in PEM in"),
    ] {
        write_certificate(here);
        std::fs::write(here.join(name), text).expect("written");
        let ended = program(&["edge", "--config", "edge.yaml"]).run(DEADLINE).await;
        assert!(!ended.status.success());
        let said = ended.stderr.join("\n");
        assert!(said.contains(problem) && said.contains("(http.tls)") && said.contains(name), "{said}");
    }
}
