//! What edges and nodes ask from outside: their files, certificates and sockets, and the way to an engine.

use super::World;
use crate::simulation::authority::{Authority, name};
use crate::simulation::engine::Mood;
use crate::simulation::network::EDGE;
use crate::simulation::process::Process;
use crate::simulation::random::Random;
use crate::simulation::settings::FIRST_PORT;
use iop_certs::{Identity, LoadError as IdentityError, RenewedBundle};
use iop_config::{EdgeConfig, LoadError};
use iop_edge::{
    Certificates, ConfigSource, Issued, Loading, Looking, NodeRequest, OwnLook, Reading, Renewed, RevokedLook,
};
use iop_node::{
    ByteStream, ConnectError, Connecting, Connector, IdentitySource, LoadingIdentity, ReplacingIdentity,
    Resolver, Resolving, Sockets,
};
use iop_transport::endpoint::{self, EndpointError};
use iop_transport::{Endpoint, TokioRuntime};
use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// A node's file.
pub(in crate::simulation) fn node_file(random: &mut Random, node: usize) -> String {
    let interval = random.range(1..=3);
    let keep_alive = random.range(500..=1_600);
    format!(
        r#"{{"edge": {{"addresses": ["{EDGE}"]}}, "certs": {{"bundle": "{}.pem"}},
            "reconnect": {{"max_attempts": 0, "interval_sec": {interval}}},
            "keep_alive_ms": {keep_alive}, "segmentation_offload": false}}"#,
        name(node)
    )
}

/// The edge's file, in memory.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) text: Mutex<String>,
}

impl Source {
    pub(super) fn text(&self) -> String {
        self.text.lock().expect("nothing panics while it holds the file").clone()
    }

    pub(super) fn set(&self, text: String) {
        *self.text.lock().expect("nothing panics while it holds the file") = text;
    }
}

pub(super) fn parse(text: &str) -> Result<EdgeConfig, LoadError> {
    Ok(EdgeConfig::parse(text, Path::new("edge.yaml"), &|_| None)?)
}

impl ConfigSource for Source {
    fn name(&self) -> String {
        "edge.yaml".to_owned()
    }

    fn read(&self) -> Reading<'_> {
        Box::pin(ready(Some(self.text().into_bytes())))
    }

    fn load(&self, read: Option<Vec<u8>>) -> Loading<'_> {
        let text = String::from_utf8(read.unwrap_or_default()).unwrap_or_default();
        Box::pin(ready(parse(&text)))
    }
}

/// The edge's certificates: its own is always the same and never due, and none is revoked.
#[derive(Debug)]
pub(super) struct Unchanged;

impl Certificates for Unchanged {
    fn own(&self) -> Looking<'_, OwnLook> {
        Box::pin(ready(Ok(Authority::shared().edge.clone())))
    }

    fn renew_own(&self, _in_force: Identity) -> Looking<'_, Renewed> {
        unreachable!("it is good for ever")
    }

    fn renew_node(&self, _in_force: Identity, _request: NodeRequest) -> Looking<'_, Issued> {
        unreachable!("nodes' certificates are good for ever too")
    }

    fn revoked(&self) -> Looking<'_, RevokedLook> {
        Box::pin(ready(Ok(None)))
    }
}

/// The certificate of a node.
pub(super) struct Fixed(pub(super) usize);

impl IdentitySource for Fixed {
    fn load(&self) -> LoadingIdentity<'_> {
        let identity: Result<Identity, IdentityError> = Ok(Authority::shared().nodes[self.0].clone());
        Box::pin(ready(identity))
    }

    fn replace(&self, _old: Identity, _renewed: RenewedBundle) -> ReplacingIdentity<'_> {
        unreachable!("it is good for ever")
    }
}

/// Where a node's endpoints come from.
pub(super) struct NodeSockets {
    pub(super) node: usize,
    pub(super) process: Process,
    pub(super) random: Mutex<Random>,
}

impl Sockets for NodeSockets {
    fn open(&self, local: SocketAddr) -> Result<Endpoint, EndpointError> {
        let socket = self.process.open(Some(self.node));
        let gone = || EndpointError::Bind { address: local, source: io::ErrorKind::NetworkDown.into() };
        let seed = self.random.lock().expect("nothing panics while it draws").bytes();
        endpoint::node(socket.ok_or_else(gone)?, Arc::new(TokioRuntime), Some(seed))
    }
}

/// There are no names, only addresses.
pub(super) struct NoNames;

impl Resolver for NoNames {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a> {
        let address = host.parse().map(|ip| vec![SocketAddr::new(ip, port)]);
        Box::pin(ready(address.map_err(|_no_address| io::ErrorKind::NotFound.into())))
    }
}

/// How a node reaches its engines.
pub(super) struct Wires {
    pub(super) node: usize,
    pub(super) process: Process,
    pub(super) world: Arc<World>,
}

impl Connector for Wires {
    fn connect<'a>(&'a self, _host: &'a str, port: u16) -> Connecting<'a> {
        Box::pin(async move {
            let refused = || ConnectError::Connect(io::ErrorKind::ConnectionRefused.into());
            let index = usize::from(port - FIRST_PORT);
            let engine = self.world.engines.get(index).ok_or_else(refused)?;
            if self.world.settings().providers[index].node != self.node {
                self.world.trace.violation(format_args!("{} dials another's engine", name(self.node)));
            }
            match engine.mood() {
                Mood::Up => {}
                Mood::Refuses => return Err(refused()),
                Mood::Deaf => std::future::pending().await,
            }
            let (stream, other, cable) = self.process.connect().ok_or_else(refused)?;
            tokio::spawn(engine.clone().serve(self.world.clone(), other, cable));
            Ok(Box::new(stream) as Box<dyn ByteStream>)
        })
    }
}
