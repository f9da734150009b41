//! What the doors of renewals ask: two deployments of one name that know nothing of each other, made once for a thread, in
//! temporary folders, by a clock that stands.

use iop_certs::{
    AuthorityError, Identity, InitOptions, NodeId, Role, init, issue_node, load_bundle_at, peer_node,
    renew_node,
};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{CertificateError, Error, RootCertStore};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

pub(super) const DAY: i64 = 24 * 60 * 60;

/// When the first certificates were issued, and the doors' time, when they are due; in seconds since 1970.
const ISSUED: i64 = 1_800_000_000;
pub(super) const NOW: i64 = ISSUED + 30 * DAY;

/// The name of both deployments.
pub(super) const NAME: &str = "edge.iop";

/// One deployment: its authority, its edge, two of its nodes, and whether a certificate is good for a client of its edge.
pub(super) struct Deployment {
    folder: TempDir,
    pub(super) edge: Identity,
    pub(super) node: Identity,
    pub(super) other_node: Identity,
    clients: Arc<dyn ClientCertVerifier>,
}

thread_local! {
    static DEPLOYMENTS: [Deployment; 2] = [Deployment::new(), Deployment::new()];
}

/// Lends both deployments.
pub(super) fn with_deployments(work: impl FnOnce(&Deployment, &Deployment)) {
    DEPLOYMENTS.with(|[ours, strange]| work(ours, strange));
}

impl Deployment {
    fn new() -> Self {
        let folder = TempDir::new().expect("a temporary folder can be made");
        let options = InitOptions { edge_name: NAME.to_owned(), ..InitOptions::default() };
        init(folder.path(), &options, ISSUED).expect("an authority can be made");
        let load = |name: &str, role| {
            load_bundle_at(&folder.path().join(name), role, NOW).expect("what was issued loads")
        };
        let node = |id: &str| {
            let node_id: NodeId = id.parse().expect("a good id");
            issue_node(folder.path(), &node_id, 90, ISSUED).expect("it is issued");
            load(&format!("{id}.pem"), Role::Node)
        };
        let (edge, node, other_node) = (load("edge.pem", Role::Edge), node("gpu-a"), node("gpu-b"));
        let mut roots = RootCertStore::empty();
        roots.add(edge.roots[0].clone()).expect("a root");
        let provider = Arc::new(ring::default_provider());
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let clients = clients.build().expect("a verifier of clients");
        Self { folder, edge, node, other_node, clients }
    }

    /// What the edge makes of the request of one of its nodes.
    pub(super) fn answer(
        &self,
        node: &Identity,
        csr: &[u8],
    ) -> Result<Vec<CertificateDer<'static>>, AuthorityError> {
        let peer = peer_node(&node.chain[0], NAME).expect("a node's certificate");
        renew_node(self.folder.path(), &self.edge, &peer, csr, NOW)
    }

    /// Whether the edge takes this chain from a client.
    pub(super) fn takes(&self, chain: &[CertificateDer<'static>]) -> Result<(), Error> {
        let (leaf, others) = chain.split_first().ok_or(CertificateError::UnknownIssuer)?;
        let now = UnixTime::since_unix_epoch(Duration::from_secs(NOW.unsigned_abs()));
        self.clients.verify_client_cert(leaf, others, now).map(drop)
    }
}
