//! Peers that mean harm: with a certificate of the deployment, and without one.
