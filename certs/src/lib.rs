//! iop-certs: the deployment's own certificates: authority, issue, load.
