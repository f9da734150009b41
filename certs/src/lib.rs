//! iop-certs: the deployment's own certificates: authority, issue, renew, revoke, load.
//!
//! Makes files and reads files. It opens no sockets, starts no tasks, and does not verify a peer's chain: rustls does
//! that, from the roots of an [`Identity`]; [`peer_node`] then says which node the verified certificate names.
//!
//! A deployment has one DNS-like name. Root CA -> issuing CA -> leaves, ECDSA P-256 throughout:
//!
//! | certificate | name in it | may be used for |
//! | --- | --- | --- |
//! | edge | DNS name = the deployment | TLS server only |
//! | node | URI `spiffe://<deployment>/node/<node id>`, nothing else | TLS client only |
//! | both CAs | URI `spiffe://<deployment>` | signing certificates and revocation lists |
//!
//! The split of uses is what keeps a stolen node certificate from posing as the edge.

mod authority;
mod bundle;
mod certificate;
mod clock;
mod deployment;
mod identity;
mod init;
mod issue;
mod load;
mod node_id;
mod random;
mod renew;
mod revocations;
mod revoke;
mod secret;
mod serial;
mod show;
mod store;

pub use authority::{Authority, AuthorityError};
pub use clock::now;
pub use deployment::{DEFAULT_EDGE_NAME, EdgeNameError};
pub use identity::{IdentityError, NameKind, PeerNode, Role, peer_node};
pub use init::{InitOptions, InitReport, init};
pub use issue::{DEFAULT_LEAF_DAYS, IssueReport, issue_edge, issue_node};
pub use load::{Identity, LoadError, load_bundle, load_bundle_at};
pub use node_id::{NodeId, NodeIdError};
pub use renew::{RenewalError, RenewalRequest, RenewedBundle, is_renewal_due, renew_edge, renew_node};
pub use revocations::{REVOKED_FILE, Revocations, RevocationsError};
pub use revoke::{RevokeError, RevokeReport, revoke_bundle, revoke_node, revoke_serial};
pub use secret::{SecretError, edge_secret};
pub use serial::{Serial, SerialError};
pub use show::Utc;
pub use store::StoreError;
