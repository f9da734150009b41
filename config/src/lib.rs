//! iop-config: the edge's and the node's configuration files, compiled with every error at once.
