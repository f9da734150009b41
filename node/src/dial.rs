//! One dial: every address of every name in turn, until one of them leads to a Welcome. When to dial, and what follows
//! from a failure, is the supervisor's business.

mod credentials;
mod resolve;
mod sockets;

pub(crate) use credentials::Identities;
pub use credentials::{BundleFile, IdentitySource, LoadingIdentity, ReplacingIdentity};
pub use resolve::{Resolver, Resolving, SystemResolver};
pub use sockets::{Sockets, UdpSockets};

use crate::diagnosis::{Diagnosis, Problem};
use crate::renewal::Life;
use crate::session::{self, Registered, Registration};
use iop_certs::Identity;
use iop_config::{Address, EdgeAddress};
use iop_transport::codes::CloseCode;
use iop_transport::endpoint::{self, QuicSettings};
use iop_transport::tls::Credentials;
use iop_transport::wire::Hello;
use iop_transport::{Connection, Endpoint};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How long a name may take to resolve.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Addresses of one name that are tried; a name with more is a mistake.
const MAX_ADDRESSES_OF_NAME: usize = 16;

/// How long a handshake may take. QUIC repeats its first packet after 1, 3 and 7 s, so a longer wait gains little.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(8);

/// How long a handshake may take at least, however short the interval: the first packet, its first repetition, and a
/// slow network's round trip.
const CONNECT_TIMEOUT_LEAST: Duration = Duration::from_millis(2500);

/// How long a closed endpoint may take to get its goodbye out.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(1);

/// What is dialed, and from where.
pub(crate) struct Dialer {
    pub(crate) edge: EdgeAddress,
    pub(crate) settings: QuicSettings,
    pub(crate) connect_timeout: Duration,
    pub(crate) sockets: Arc<dyn Sockets>,
    pub(crate) resolver: Arc<dyn Resolver>,
    pub(crate) identities: Identities,
    /// Who this process is; its dial number counts up.
    pub(crate) hello: Hello,
    /// The endpoint of the last dial, and of the connection that came of it.
    pub(crate) endpoint: Option<Endpoint>,
    /// What last led to a Welcome: the name, and its address. Tried first.
    pub(crate) preferred: Option<(Address, SocketAddr)>,
}

/// The longest time that one handshake may take, for dials at this interval.
///
/// Not longer than the interval where that is short: the repetitions of QUIC's first packet are ever farther apart, and a
/// dial that waits for the next one sees an edge that is back later than a fresh dial would.
pub(crate) fn connect_timeout(interval: Duration) -> Duration {
    interval.clamp(CONNECT_TIMEOUT_LEAST, CONNECT_TIMEOUT)
}

impl Dialer {
    /// Tries every address once. An answer of the edge's ends the dial, whatever it says: its other addresses would
    /// answer the same.
    pub(crate) async fn dial(&mut self) -> Result<Registered, Diagnosis> {
        let edge = self.edge.addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let identity = self.identities.load().await.map_err(|problem| Diagnosis::of(problem, &edge))?;
        // A fresh socket for every dial: the last one may be bound to a network that is gone.
        let endpoint = self.open(&identity).map_err(|problem| Diagnosis::of(problem, &edge))?;
        let Identity { deployment, node: Some(node), not_before, not_after, .. } = identity else {
            return Err(Diagnosis::of(Problem::OwnCertificate("it names no node".into()), &edge));
        };
        let server_name = self.edge.server_name.as_ref().map_or(deployment, |name| name.as_str().to_owned());

        let mut diagnosis = Diagnosis::default();
        for name in self.names() {
            let addresses = match self.resolve(&name).await {
                Ok(addresses) => addresses,
                Err(problem) => {
                    diagnosis.add(problem, &name.to_string());
                    continue;
                }
            };
            for address in addresses {
                match self.attempt(&endpoint, address, &server_name).await {
                    Ok(registration) => {
                        let shown = shown(&name, address);
                        self.preferred = Some((name, address));
                        let life = Life { not_before, not_after };
                        return Ok(Registered { registration, node, life, address, shown });
                    }
                    Err(problem) => {
                        let verdict = problem.is_verdict();
                        diagnosis.add(problem, &shown(&name, address));
                        if verdict {
                            return Err(diagnosis);
                        }
                    }
                }
            }
        }
        Err(diagnosis)
    }

    /// Says goodbye on whatever was dialed last, and waits until it is out, within a bound.
    pub(crate) async fn hang_up(&mut self) {
        if let Some(endpoint) = self.endpoint.take() {
            endpoint.close(CloseCode::NodeShutdown.wire(), b"the node is shutting down");
            // What is not out by then is lost; the edge notices within its idle timeout.
            let _late = timeout(GOODBYE_TIMEOUT, endpoint.wait_idle()).await;
        }
    }

    fn open(&mut self, identity: &Identity) -> Result<Endpoint, Problem> {
        let Identity { chain, key, roots, .. } = identity.clone();
        let client = endpoint::node_config(Credentials { chain, key, roots }, self.settings)
            .map_err(|error| Problem::OwnCertificate(error.to_string()))?;
        let mut endpoint =
            sockets::open(&*self.sockets).map_err(|error| Problem::Socket(error.to_string()))?;
        endpoint.set_default_client_config(client);
        self.endpoint = Some(endpoint.clone());
        Ok(endpoint)
    }

    /// The configured names in the order of this dial.
    fn names(&self) -> Vec<Address> {
        let mut names = self.edge.addresses.clone();
        if let Some((preferred, _)) = &self.preferred {
            names.sort_by_key(|name| name != preferred);
        }
        names
    }

    async fn resolve(&self, name: &Address) -> Result<Vec<SocketAddr>, Problem> {
        let resolving = self.resolver.resolve(name.host(), name.port());
        let mut addresses = match timeout(RESOLVE_TIMEOUT, resolving).await {
            Ok(Ok(addresses)) => addresses,
            Ok(Err(error)) => return Err(Problem::Name(error.to_string())),
            Err(_elapsed) => return Err(Problem::Name("the resolver does not answer".into())),
        };
        if addresses.is_empty() {
            return Err(Problem::Name("it has no address".into()));
        }
        addresses.truncate(MAX_ADDRESSES_OF_NAME);
        if let Some((_, preferred)) = self.preferred {
            addresses.sort_by_key(|address| *address != preferred);
        }
        Ok(addresses)
    }

    async fn attempt(
        &mut self,
        endpoint: &Endpoint,
        address: SocketAddr,
        server_name: &str,
    ) -> Result<Registration, Problem> {
        let connection = self.connect(endpoint, address, server_name).await?;
        self.hello.dial += 1;
        session::register(connection, &self.hello).await
    }

    async fn connect(
        &self,
        endpoint: &Endpoint,
        address: SocketAddr,
        server_name: &str,
    ) -> Result<Connection, Problem> {
        let connecting =
            endpoint.connect(address, server_name).map_err(|error| Problem::Socket(error.to_string()))?;
        match timeout(self.connect_timeout, connecting).await {
            Ok(result) => result.map_err(|error| Problem::before_welcome(&error)),
            Err(_elapsed) => Err(Problem::NoAnswer),
        }
    }
}

/// An address as people wrote it, and what it resolved to where that says more.
fn shown(name: &Address, address: SocketAddr) -> String {
    let (name, address) = (name.to_string(), address.to_string());
    if name == address { name } else { format!("{name} ({address})") }
}
