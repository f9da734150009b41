//! iop-certs seen from outside: real files, real certificates, rustls' own verifiers. One module per subject; `made`
//! builds what the others look at. Permissions of files are half the matter, so this is for unix.

#![cfg(unix)]

mod authority;
mod authority_files;
mod hostile;
mod issue;
mod load;
mod load_errors;
mod made;
mod peer;
mod renew;
mod renew_node;
mod revocations;
mod revoke;
mod tls;
