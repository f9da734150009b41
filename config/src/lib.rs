//! iop-config: the edge's and the node's configuration files, compiled with every error at once. CONTRACT.md beside this
//! crate describes both files key by key.
//!
//! A file's text becomes a tree that knows the line of each of its parts (`tree`); the compilers (`edge`, `node`) read
//! settings from it by the rows of `schema`, through `section`; out comes a configuration that holds no wrong value, or
//! the list of everything that is wrong. Nothing here logs, watches files or applies anything.

mod difference;
mod edge;
mod endpoint;
mod hint;
mod host;
mod issue;
mod kind;
mod load;
mod names;
mod node;
mod parts;
mod scalar;
mod schema;
mod secret;
mod section;
mod tree;

pub use difference::{Action, Change, Difference, FieldChange, Subject, difference};
pub use edge::{
    Adapter, Admin, Auth, AuthKey, Candidate, CorsOrigins, EdgeCerts, EdgeConfig, Http, HttpTls, Model, Node,
    Provider, ProviderPool, Quic, Upstream,
};
pub use endpoint::{Endpoint, EndpointError, EndpointPattern, EndpointPatternError};
pub use host::{Address, AddressError};
pub use issue::{Issue, Issues, MAX_ISSUES, Position};
pub use kind::Kind;
pub use load::{Environment, LoadError, check, check_text};
pub use names::{EnvName, KeyName, ModelId, NameError, NodeId, Origin, Owner, ProviderId, ServerName};
pub use node::{EdgeAddress, NodeCerts, NodeConfig, Reconnect};
pub use schema::{Applies, KnownKey, known_keys};
pub use secret::{Secret, SecretError};
pub use tree::{MAX_DEPTH, MAX_FILE_BYTES, MAX_NODES};
