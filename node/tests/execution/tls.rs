//! Inference servers behind TLS.

use super::lab::{CHAT, DEADLINE, Event, Lab, openai, tunnel, within};
use super::link::Authority;
use iop_node::TcpConnector;
use iop_tests::engine::{Engine, Script};
use iop_transport::wire::RefusalReason;
use rcgen::{ExtendedKeyUsagePurpose, SanType};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// Speaks TLS in front of `engine`, as `localhost`.
async fn tls_in_front_of(engine: SocketAddr, authority: &Authority) -> SocketAddr {
    let name = SanType::DnsName("localhost".try_into().expect("an ASCII name"));
    let credentials = authority.issue(name, ExtendedKeyUsagePurpose::ServerAuth);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("TLS 1.3")
        .with_no_client_auth()
        .with_single_cert(credentials.chain, credentials.key)
        .expect("good credentials");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound socket");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut client) = acceptor.accept(stream).await else { return };
                let mut server = TcpStream::connect(engine).await.expect("the engine listens");
                // Either end may go away at any time.
                let _ended = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    address
}

fn https(address: SocketAddr) -> String {
    format!("https://localhost:{}", address.port())
}

#[tokio::test]
async fn a_trusted_https_server_serves_many_runs_on_one_connection_and_is_hung_up_on_by_a_cancel() {
    let (engine, authority) = (Engine::start(), Authority::new());
    let address = tls_in_front_of(engine.address(), &authority).await;
    let lab = Lab::start_trusting(vec![authority.root.clone()], Arc::new(TcpConnector)).await;
    assert_eq!(lab.apply([openai("llama", &https(address), 1)]).refused, []);
    for _ in 0..5 {
        assert_eq!(lab.chat("llama").await.answer().0, 200);
    }
    assert_eq!(engine.look(|log| log.connections_opened), 1);
    assert_eq!(engine.request(0).header("host"), format!("localhost:{}", address.port()));

    engine.queue_scripts([Script::silence()]);
    let (lease, mut run) = lab.open("llama", tunnel("POST", "/v1/chat/completions"), CHAT).await;
    tokio::select! {
        reply = run.reply() => panic!("the engine is silent: {reply:?}"),
        () = engine.wait_received(6, DEADLINE) => {}
    }
    drop(run);
    lab.returned(lease).await;
    assert_eq!(lab.journal.events().last_chunk(), Some(&[Event::Closed, Event::Returned(lease)]));
    within(engine.wait_closed(5, DEADLINE)).await;
    assert_eq!(lab.chat("llama").await.answer().0, 200);
}

#[tokio::test]
async fn a_server_that_does_not_prove_who_it_is_gets_no_request() {
    let (engine, authority) = (Engine::start(), Authority::new());
    let strange = tls_in_front_of(engine.address(), &Authority::new()).await;
    let lab = Lab::start_trusting(vec![authority.root.clone()], Arc::new(TcpConnector)).await;
    for (address, problem) in [(strange, "invalid peer certificate"), (engine.address(), "")] {
        assert_eq!(lab.apply([openai("llama", &https(address), 1)]).refused, []);
        let refusal = lab.chat("llama").await.refusal();
        assert_eq!(refusal.reason, RefusalReason::Unreachable);
        let detail = format!("{} cannot be connected to: TLS failed: {problem}", https(address));
        assert!(refusal.detail.starts_with(&detail), "{refusal:?}");
    }
    assert_eq!(engine.look(|log| log.requests.len()), 0);
}
