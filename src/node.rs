//! `iop node`: reads the configuration and runs the node.

use crate::failure::Failure;
use crate::signals;
use iop_config::NodeConfig;
use iop_node::{NodeOptions, Welcomed};
use std::path::PathBuf;
use std::process::ExitCode;

pub(crate) async fn run(file: PathBuf) -> Result<ExitCode, Failure> {
    let config = NodeConfig::load(&file).map_err(|error| Failure::load(&file, error))?;
    let stop = signals::stop()?;
    let mut first = true;
    let exit = iop_node::run(
        NodeOptions::new(config, rand::random()),
        stop.cancelled_owned(),
        |welcomed: Welcomed| {
            // Later registrations are in the log; scripts wait for the first.
            if std::mem::take(&mut first) {
                let Welcomed { node_id, edge, generation } = welcomed;
                println!("ready node={node_id} edge={edge} generation={generation}");
            }
        },
    );
    Ok(ExitCode::from(exit.await.code()))
}
