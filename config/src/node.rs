//! A node's configuration, compiled: how it reaches its edge and what it lets the edge use. Its providers are not here;
//! the edge owns those.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::endpoint::{Endpoint, EndpointPattern};
use crate::host::Address;
use crate::issue::{Issues, Log, NoValue};
use crate::kind::{self, Kind};
use crate::load::{self, LoadError, beside};
use crate::names::ServerName;
use crate::schema::{NODE, NODE_CERTS, NODE_EDGE, RECONNECT};
use crate::section::{Context, Section};
use crate::tree::Node;

/// Addresses of an edge: each of them is dialled in turn, and a human wrote them.
const MAX_ADDRESSES: usize = 64;

/// Everything a node is configured with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeConfig {
    /// The edge to dial.
    pub edge: EdgeAddress,
    /// What the node proves its identity with.
    pub certs: NodeCerts,
    /// What it does when it cannot connect.
    pub reconnect: Reconnect,
    /// How often it sends something over an idle connection.
    pub keep_alive: Duration,
    /// Which inference servers it lets the edge use.
    pub allow_endpoints: Vec<EndpointPattern>,
    /// Whether the kernel may cut large sends into packets. Some networks break on it.
    pub segmentation_offload: bool,
}

/// How an edge is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeAddress {
    /// Dialled in turn; never empty.
    pub addresses: Vec<Address>,
    /// The name its certificate must carry; None: the one that `iop certs` gives.
    pub server_name: Option<ServerName>,
}

/// A node's credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeCerts {
    /// The file that `iop certs issue` wrote: key, chain and CA.
    pub bundle: PathBuf,
}

/// How often a node tries to connect, and how long it waits between two tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reconnect {
    /// Until it is stopped.
    Unlimited {
        /// Seconds between tries. Trying for ever without a pause would be a flood.
        interval_sec: NonZeroU32,
    },
    /// This many times in a row.
    Limited {
        /// Tries before it gives up.
        max_attempts: NonZeroU32,
        /// Seconds between tries.
        interval_sec: u32,
    },
}

impl Reconnect {
    /// Tries before it gives up; None: never.
    pub fn max_attempts(self) -> Option<NonZeroU32> {
        match self {
            Self::Unlimited { .. } => None,
            Self::Limited { max_attempts, .. } => Some(max_attempts),
        }
    }

    /// The wait between two tries.
    pub fn interval(self) -> Duration {
        let seconds = match self {
            Self::Unlimited { interval_sec } => interval_sec.get(),
            Self::Limited { interval_sec, .. } => interval_sec,
        };
        Duration::from_secs(seconds.into())
    }
}

impl NodeConfig {
    /// Reads the file at `path`. Blocks on the disk.
    ///
    /// # Errors
    /// When the file cannot be read, or with every issue of it.
    pub fn load(path: &Path) -> Result<Self, LoadError> {
        Ok(Self::parse(&load::read(path)?, path)?)
    }

    /// Compiles `text`. `origin` names it in issues, and relative paths in it start at `origin`'s folder.
    ///
    /// # Errors
    /// With every issue of the text.
    pub fn parse(text: &str, origin: &Path) -> Result<Self, Issues> {
        load::compile(text, origin, |root, log| {
            kind::require(Kind::Node, root, log)?;
            Self::compile(root, origin, log)
        })
    }

    /// Whether the edge may point an adapter at `endpoint`.
    pub fn allows(&self, endpoint: &Endpoint) -> bool {
        self.allow_endpoints.iter().any(|pattern| pattern.matches(endpoint))
    }

    pub(crate) fn compile(root: &Node<'_>, origin: &Path, log: &Log) -> Result<Self, NoValue> {
        let context = Context { kind: Kind::Node, log };
        let file = Section::open(context, &NODE, root, root.position, String::new())?;
        let edge = file.section("edge", &NODE_EDGE).and_then(|section| edge(&section));
        let bundle = file.section("certs", &NODE_CERTS).and_then(|section| section.read("bundle"));
        let reconnect = file.section("reconnect", &RECONNECT).and_then(|section| reconnect(&section));
        let keep_alive = file.millis("keep_alive_ms");
        let allow_endpoints = file.list("allow_endpoints", EndpointPattern::EXPECTED);
        let segmentation_offload = file.read("segmentation_offload");
        Ok(Self {
            edge: edge?,
            certs: NodeCerts { bundle: beside(origin, bundle?) },
            reconnect: reconnect?,
            keep_alive: keep_alive?,
            allow_endpoints: allow_endpoints?,
            segmentation_offload: segmentation_offload?,
        })
    }
}

fn edge(section: &Section<'_>) -> Result<EdgeAddress, NoValue> {
    let addresses = addresses(section);
    let server_name = section.optional("server_name");
    Ok(EdgeAddress { addresses: addresses?, server_name: server_name? })
}

fn addresses(section: &Section<'_>) -> Result<Vec<Address>, NoValue> {
    let addresses = section.list("addresses", Address::EXPECTED)?;
    let found = match addresses.len() {
        0 if section.is_written("addresses") => "an empty list".to_owned(),
        0 => "nothing".to_owned(),
        1..=MAX_ADDRESSES => return Ok(addresses),
        count => format!("{count} addresses"),
    };
    let expected = format!("a list of 1 to {MAX_ADDRESSES} addresses, each of them {}", Address::EXPECTED);
    Err(section.issue("addresses", found, expected))
}

/// [node-connectivity-supervision]: 0 attempts means no limit.
fn reconnect(section: &Section<'_>) -> Result<Reconnect, NoValue> {
    let max_attempts = section.read("max_attempts");
    let interval_sec = section.read("interval_sec");
    let (max_attempts, interval_sec) = (NonZeroU32::new(max_attempts?), interval_sec?);
    match (max_attempts, NonZeroU32::new(interval_sec)) {
        (Some(max_attempts), _) => Ok(Reconnect::Limited { max_attempts, interval_sec }),
        (None, Some(interval_sec)) => Ok(Reconnect::Unlimited { interval_sec }),
        (None, None) => {
            let expected = "at least 1 while `max_attempts` is 0, which is unlimited";
            Err(section.issue("interval_sec", "`0`", expected))
        }
    }
}
