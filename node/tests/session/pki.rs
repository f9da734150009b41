//! A deployment's certificates in a temporary folder.

use iop_certs::{DEFAULT_LEAF_DAYS, Identity, InitOptions, Role, init, issue_node, load_bundle, now};
use iop_transport::tls::Credentials;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub(crate) struct Pki {
    directory: TempDir,
}

impl Pki {
    /// An authority with an edge and the nodes gpu-a and gpu-b.
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        init(directory.path(), &InitOptions::default(), now()).expect("a new authority");
        for node in ["gpu-a", "gpu-b"] {
            let id = node.parse().expect("a node id");
            issue_node(directory.path(), &id, DEFAULT_LEAF_DAYS, now()).expect("a node's certificate");
        }
        Self { directory }
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn bundle(&self, node: &str) -> PathBuf {
        self.directory().join(format!("{node}.pem"))
    }

    pub(crate) fn edge(&self) -> Credentials {
        let bundle = load_bundle(&self.bundle("edge"), Role::Edge).expect("the edge's bundle");
        let Identity { chain, key, roots, .. } = bundle;
        Credentials { chain, key, roots }
    }
}
