//! The command line. Names and defaults only; each command's work is in its own file.

use crate::status::AdminUrl;
use clap::{Args, Parser, Subcommand};
use iop_config::EnvName;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;

/// Serve language models from machines you own.
#[derive(Debug, Parser)]
#[command(name = "iop", version, about, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Try it out: an edge and a node in one process, with a built-in model or with your own servers
    Demo(Demo),
    /// Run the edge: clients call it over HTTP, nodes dial it over QUIC
    Edge {
        /// The edge's configuration file
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Run a node beside inference servers
    #[command(after_help = NODE_EXIT_CODES)]
    Node {
        /// The node's configuration file
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Make, issue and revoke the deployment's certificates
    Certs {
        #[command(subcommand)]
        command: Certs,
    },
    /// Look at configuration files
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Show what a running edge does: its queue, its nodes and their providers, what is not available
    #[command(after_help = STATUS_COLUMNS)]
    Status(Status),
}

const NODE_EXIT_CODES: &str = "Exit codes: 0 stopped; 2 bad configuration; 3 reconnect.max_attempts used up; \
    4 certificate missing, bad or refused, or the edge is not of this deployment; 1 anything else";

const STATUS_COLUMNS: &str = "Columns:
  RUNNING  requests that run, of as many as the provider may run now
  LONG     the same of its long-context slots
  QUEUED   waiting requests that could run there; one that could run at several counts at each

Exit codes: 0 the edge was read, or --watch was ended by Ctrl-C; 1 it could not be read; 2 wrong arguments";

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Where clients call; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080", value_parser = address)]
    pub(crate) http: SocketAddr,
    /// Where operators look
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9090", value_parser = address)]
    pub(crate) admin: SocketAddr,
    /// Where the node dials (UDP)
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7443", value_parser = address)]
    pub(crate) quic: SocketAddr,
    /// An OpenAI-compatible server to use instead of the built-in model; may be given several times
    #[arg(long = "provider", value_name = "URL")]
    pub(crate) providers: Vec<String>,
    /// Requests that each provider runs at once
    #[arg(long, default_value = "2")]
    pub(crate) capacity: NonZeroU32,
    /// Check the promise instead of serving: two model names of one capacity-1 server, called at once; exit code 1 if the
    /// server ever saw two requests, or if a counter is not back at 0
    #[arg(long, conflicts_with_all = ["providers", "capacity", "http", "admin", "quic"])]
    pub(crate) smoke: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Certs {
    /// Make a new authority and the edge's certificate
    Init {
        /// Folder for the files; made if missing
        #[arg(long, value_name = "FOLDER", default_value = "pki")]
        dir: PathBuf,
        /// Name of the deployment, in the edge's certificate; nodes ask for it whatever address they dial
        #[arg(long, value_name = "NAME", default_value = iop_certs::DEFAULT_EDGE_NAME)]
        edge_name: String,
        /// How long the edge's certificate is valid
        #[arg(long, default_value_t = iop_certs::DEFAULT_LEAF_DAYS)]
        days: u32,
    },
    /// Issue a node's certificate, or the edge's again: one file with key, chain and trusted root
    Issue {
        /// The folder that `certs init` made
        #[arg(long, value_name = "FOLDER", default_value = "pki")]
        dir: PathBuf,
        #[command(flatten)]
        holder: Holder,
        /// How long the certificate is valid
        #[arg(long, default_value_t = iop_certs::DEFAULT_LEAF_DAYS)]
        days: u32,
    },
    /// Revoke a node's certificates: a running edge closes its connection and lets it in no more
    Revoke {
        /// The edge's folder of certificates
        #[arg(long, value_name = "FOLDER", default_value = "pki")]
        dir: PathBuf,
        #[command(flatten)]
        which: Revoked,
    },
}

/// Whose certificate is issued.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Holder {
    /// The node's id, as in the edge's configuration
    #[arg(long, value_name = "ID")]
    pub(crate) node: Option<iop_certs::NodeId>,
    /// The edge; one that has the authority's key beside its certificate does it by itself
    #[arg(long)]
    pub(crate) edge: bool,
}

/// Which certificates are revoked.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Revoked {
    /// Every certificate issued to this node until now; what is issued afterwards is good
    #[arg(long, value_name = "ID")]
    pub(crate) node: Option<iop_certs::NodeId>,
    /// The one certificate with this serial number
    #[arg(long, value_name = "HEX")]
    pub(crate) serial: Option<iop_certs::Serial>,
    /// The one certificate of the node in this file
    #[arg(long, value_name = "FILE")]
    pub(crate) bundle: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check an edge's or a node's file: every error at once; exit code 2 if there is any
    Check {
        /// The file
        file: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Status {
    /// The edge's admin listener: http://HOST:PORT, HOST:PORT or :PORT
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9090")]
    pub(crate) admin: AdminUrl,
    /// Print the snapshot itself, as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Look again and again until Ctrl-C: every second on a terminal, every 2 seconds elsewhere
    #[arg(long)]
    pub(crate) watch: bool,
    /// The environment variable that holds the key of the admin listener, if it asks for one
    #[arg(long, value_name = "NAME")]
    pub(crate) key_env: Option<EnvName>,
}

/// An address; `:PORT` alone means loopback.
fn address(text: &str) -> Result<SocketAddr, String> {
    let full = if text.starts_with(':') { format!("127.0.0.1{text}") } else { text.to_owned() };
    full.parse().map_err(|_| "expected ADDRESS:PORT or :PORT, such as 127.0.0.1:8080 or :0".to_owned())
}
