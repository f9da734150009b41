//! `iop certs`: makes the authority, issues and revokes certificates, says what was written.

use crate::arguments::{Certs, Holder, Revoked};
use crate::failure::Failure;
use iop_certs::{InitOptions, IssueReport, NodeId, RevokeReport, Utc};
use std::path::Path;

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
        Certs::Issue { dir, holder: Holder { node, .. }, days } => {
            let report = match &node {
                Some(node) => iop_certs::issue_node(&dir, node, days, now),
                None => iop_certs::issue_edge(&dir, days, now),
            };
            say_issued(node, &report.map_err(Failure::credentials)?);
        }
        Certs::Revoke { dir, which } => {
            let report = match &which {
                Revoked { node: Some(node), .. } => iop_certs::revoke_node(&dir, node, now),
                Revoked { bundle: Some(bundle), .. } => iop_certs::revoke_bundle(&dir, bundle, now),
                Revoked { serial: Some(serial), .. } => iop_certs::revoke_serial(&dir, serial.clone(), now),
                Revoked { node: None, bundle: None, serial: None } => {
                    return Err(Failure::config("name what to revoke: --node, --serial or --bundle"));
                }
            };
            say_revoked(&dir, &report.map_err(Failure::credentials)?);
        }
    }
    Ok(())
}

fn say_issued(node: Option<NodeId>, IssueReport { path, replaced, not_after, serial }: &IssueReport) {
    let what = if *replaced { "replaced" } else { "made" };
    let holder = node.as_ref().map_or("the edge".to_owned(), |node| format!("node `{node}`"));
    println!("{what} {} for {holder}, valid until {}", path.display(), Utc(*not_after));
    println!("its serial number is {serial}");
    match node {
        Some(node) => {
            println!("it holds the node's private key: copy it to that machine only, as {node}.pem")
        }
        None => println!("a running edge that has it in its folder of certificates takes it over by itself"),
    }
}

fn say_revoked(dir: &Path, report: &RevokeReport) {
    let list = report.path.display();
    if report.added.is_empty() {
        println!("{list} has it already, nothing was changed");
        return;
    }
    for line in &report.added {
        println!("added to {list}: {line}");
    }
    println!(
        "an edge that uses this folder takes it over within two seconds and closes the connections concerned"
    );
    if let Some(node) = &report.node {
        if !dir.join(format!("{node}.pem")).exists() {
            println!("note: there is no {node}.pem in this folder; is `{node}` the node's id?");
        }
        println!("if the node may come back: iop certs issue --dir {} --node {node}", dir.display());
    }
}
