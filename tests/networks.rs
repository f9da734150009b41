//! Nodes behind broken networks, in network namespaces of their own: Linux, root, iproute2, nftables and conntrack.
