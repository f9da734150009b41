//! `iop certs`: makes the authority, issues certificates, says what was written.

use crate::arguments::Certs;
use crate::failure::Failure;
use iop_certs::InitOptions;

pub(crate) fn run(command: Certs) -> Result<(), Failure> {
    let now = iop_certs::now();
    match command {
        Certs::Init { dir, edge_name, days } => {
            let options = InitOptions { edge_name, days };
            let report = iop_certs::init(&dir, &options, now).map_err(Failure::credentials)?;
            println!("made the authority and the edge's certificate of deployment `{}`:", report.edge_name);
            for file in report.files {
                println!("  {}", file.display());
            }
            println!("next: iop certs issue --dir {} --node NODE-ID", dir.display());
        }
        Certs::Issue { dir, node, days } => {
            let report = iop_certs::issue_node(&dir, &node, days, now).map_err(Failure::credentials)?;
            let what = if report.replaced { "replaced" } else { "made" };
            println!("{what} {} for node `{node}`, valid for {days} days", report.path.display());
            println!("it holds the node's private key: copy it to that machine only, as {node}.pem");
        }
    }
    Ok(())
}
