//! `iop demo`: an edge and a node in one process, over real QUIC on loopback, with certificates of their own.

use crate::arguments::Demo;
use crate::failure::Failure;
use crate::{edge, signals, smoke};
use iop_certs::{InitOptions, NodeId};
use iop_config::{EdgeConfig, NodeConfig};
use iop_edge::Addresses;
use iop_node::NodeOptions;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// The demo's only node.
const NODE: &str = "demo-node";

/// A server and the models that it has.
struct Server {
    url: String,
    models: Vec<String>,
}

pub(crate) async fn run(options: Demo) -> Result<ExitCode, Failure> {
    refuse_others(&options)?;
    let stop = signals::stop()?;
    if options.smoke {
        return smoke::run(options, stop).await;
    }
    serve(&options, stop, greet).await
}

/// A demo asks nobody for a key, so neither its clients nor its operators may be on other machines.
fn refuse_others(options: &Demo) -> Result<(), Failure> {
    let listeners = [("--http", options.http, "auth.keys"), ("--admin", options.admin, "admin.key_env")];
    match listeners.into_iter().find(|(_, address, _)| !address.ip().is_loopback()) {
        None => Ok(()),
        Some((option, address, setting)) => Err(Failure::config(format!(
            "{option} {address} is not a loopback address, and a demo asks for no key: give it {option} :{}, or run \
             `iop edge` with `{setting}` set",
            address.port()
        ))),
    }
}

/// Runs edge and node until they are stopped. `ready` is called once, with the first model's name, when they answer.
pub(crate) async fn serve(
    options: &Demo,
    stop: CancellationToken,
    ready: impl FnOnce(&Addresses, &str) + Send,
) -> Result<ExitCode, Failure> {
    let mut servers = Vec::new();
    for url in &options.providers {
        let models = tokio::select! {
            models = iop_node::list_models(url) => models.map_err(Failure::other)?,
            () = stop.cancelled() => return Ok(ExitCode::SUCCESS),
        };
        servers.push(Server { url: url.clone(), models });
    }
    let folder =
        tempfile::tempdir().map_err(|error| Failure::other(format!("no temporary folder: {error}")))?;
    let bundle = make_certificates(&folder.path().join("pki"))?;
    // A real file, so that it can be looked at, edited and refreshed like any other.
    let file = folder.path().join("edge.yaml");
    std::fs::write(&file, edge_file(options, &servers))
        .map_err(|error| Failure::other(format!("cannot write {}: {error}", file.display())))?;
    let config = EdgeConfig::load(&file).map_err(|error| Failure::load(&file, error))?;
    let model = config.models.first().map(|model| model.id.to_string());
    let model = model.ok_or_else(|| Failure::other("the servers given with --provider list no models"))?;

    let (listens, listening) = oneshot::channel();
    // The node stays for the requests that the edge lets end.
    let edge_ended = CancellationToken::new();
    let edge = async {
        let served = edge::serve(config, file, stop.clone(), |addresses| {
            let _edge_ended_first = listens.send(addresses);
        });
        let served = served.await;
        edge_ended.cancel();
        served
    };
    let node = async {
        let Ok(addresses) = listening.await else { return Ok(ExitCode::SUCCESS) };
        let text = node_file(addresses.quic, &bundle, &servers);
        let origin = folder.path().join("node.yaml");
        let config = NodeConfig::parse(&text, &origin).map_err(Failure::config)?;
        let mut ready = Some(ready);
        let exit = iop_node::run(NodeOptions::new(config, rand::random()), edge_ended.cancelled(), |_| {
            if let Some(ready) = ready.take() {
                ready(&addresses, &model);
            }
        });
        let exit = exit.await;
        stop.cancel();
        Ok(ExitCode::from(exit.code()))
    };
    let (edge, node) = tokio::join!(edge, node);
    edge?;
    node
}

fn make_certificates(dir: &Path) -> Result<std::path::PathBuf, Failure> {
    let now = iop_certs::now();
    iop_certs::init(dir, &InitOptions::default(), now).map_err(Failure::credentials)?;
    let node: NodeId = NODE.parse().map_err(Failure::credentials)?;
    let report =
        iop_certs::issue_node(dir, &node, iop_certs::DEFAULT_LEAF_DAYS, now).map_err(Failure::credentials)?;
    Ok(report.path)
}

/// The edge's file: the built-in model under two names, or every model of the servers.
fn edge_file(options: &Demo, servers: &[Server]) -> String {
    let Demo { http, admin, quic, capacity, .. } = options;
    let mut text = format!(
        "quic: {{ listen: \"{quic}\" }}\nhttp: {{ listen: \"{http}\" }}\nadmin: {{ listen: \"{admin}\" }}\n\
         certs: {{ dir: pki }}\nnodes:\n  - id: {NODE}\n    providers:\n"
    );
    let mut models: Vec<(&str, Vec<String>)> = Vec::new();
    if servers.is_empty() {
        line(&mut text, format_args!("      - {{ id: echo, adapter: echo, capacity: {capacity} }}"));
        models.extend(["demo", "demo-fast"].map(|id| (id, vec!["echo".to_owned()])));
    }
    for (server, number) in servers.iter().zip(1..) {
        let url = quoted(&server.url);
        let id = format!("provider-{number}");
        line(
            &mut text,
            format_args!("      - {{ id: {id}, adapter: openai, endpoint: {url}, capacity: {capacity} }}"),
        );
        for model in &server.models {
            match models.iter_mut().find(|(known, _)| known == model) {
                Some((_, providers)) => providers.push(id.clone()),
                None => models.push((model, vec![id.clone()])),
            }
        }
    }
    text.push_str("models:\n");
    for (model, providers) in models {
        line(&mut text, format_args!("  - id: {}\n    candidates:", quoted(model)));
        for provider in providers {
            line(&mut text, format_args!("      - {{ node: {NODE}, provider: {provider} }}"));
        }
    }
    text
}

/// The node's file. It may reach exactly the servers that were given.
fn node_file(edge: SocketAddr, bundle: &Path, servers: &[Server]) -> String {
    let edge = reachable(edge);
    let bundle = quoted(&bundle.display().to_string());
    let mut text = format!(
        "edge: {{ addresses: [\"{edge}\"] }}\ncerts: {{ bundle: {bundle} }}\n\
         reconnect: {{ max_attempts: 0, interval_sec: 1 }}\n"
    );
    if !servers.is_empty() {
        let allowed: Vec<String> = servers.iter().map(|server| quoted(&origin(&server.url))).collect();
        line(&mut text, format_args!("allow_endpoints: [{}]", allowed.join(", ")));
    }
    text
}

/// The address to dial for a listener on all addresses.
fn reachable(listens: SocketAddr) -> SocketAddr {
    let ip = match listens.ip() {
        ip if !ip.is_unspecified() => ip,
        ip if ip.is_ipv6() => Ipv6Addr::LOCALHOST.into(),
        _ => Ipv4Addr::LOCALHOST.into(),
    };
    SocketAddr::new(ip, listens.port())
}

/// Scheme and authority of a URL.
fn origin(url: &str) -> String {
    let after_scheme = url.find("://").map_or(0, |at| at + 3);
    let end = url[after_scheme..].find('/').map_or(url.len(), |at| after_scheme + at);
    url[..end].to_owned()
}

/// A YAML scalar: JSON's strings are YAML's.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing into a string cannot fail.
    let _infallible = writeln!(text, "{line}");
}

/// What a newcomer needs, and the line that scripts wait for.
fn greet(addresses: &Addresses, model: &str) {
    let base = format!("http://{}/v1", reachable(addresses.http));
    let body = format!(
        r#"{{"model":{},"stream":true,"messages":[{{"role":"user","content":"hello from my own machine"}}]}}"#,
        quoted(model)
    );
    println!("Base URL for clients:  {base}   (any API key)");
    println!("Try it:                curl -N {base}/chat/completions -d '{body}'");
    println!("State of everything:   http://{}/admin/v1/snapshot", reachable(addresses.admin));
    println!("ready {addresses}");
}
