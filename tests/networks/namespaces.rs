//! Three network namespaces in a row, node – middle – edge, and the commands that change what is between them. They go
//! with their handle, however the test ends; those of a killed test run go when the next one begins.

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The edge's address.
pub(crate) const EDGE: &str = "10.98.2.2";
/// The node's address at first.
pub(crate) const NODE: &str = "10.98.1.2";
/// The middle's address on the node's side.
pub(crate) const MIDDLE: &str = "10.98.1.1";
/// The middle's address on the edge's side: what the edge sees of a node behind NAT.
pub(crate) const OUTSIDE: &str = "10.98.2.1";
/// The edge's QUIC port. Its namespace is its own, so no other program has it.
pub(crate) const PORT: u16 = 7443;

/// How names of namespaces begin. The process id follows.
const PREFIX: &str = "iop-test-";

static SWEPT: Once = Once::new();
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A place in the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Node,
    Middle,
    Edge,
}

/// The row. Dropping it removes the namespaces.
#[derive(Debug)]
pub(crate) struct Network {
    name: String,
}

impl Network {
    /// Two links of 1500 bytes, and a middle that forwards.
    ///
    /// # Panics
    /// When a command fails, mostly for want of root or of a tool; the message says which.
    pub(crate) fn new() -> Self {
        SWEPT.call_once(sweep);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let network = Self { name: format!("{PREFIX}{}-{number}", std::process::id()) };
        let [node, middle, edge] = [Side::Node, Side::Middle, Side::Edge].map(|side| network.namespace(side));
        for namespace in [&node, &middle, &edge] {
            run("ip", &["netns", "add", namespace]);
            run("ip", &["-n", namespace, "link", "set", "lo", "up"]);
        }
        run(
            "ip",
            &["link", "add", "c0", "netns", &node, "type", "veth", "peer", "name", "n0", "netns", &middle],
        );
        run(
            "ip",
            &["link", "add", "s0", "netns", &edge, "type", "veth", "peer", "name", "n1", "netns", &middle],
        );
        let addresses =
            [(&node, "c0", NODE), (&middle, "n0", MIDDLE), (&middle, "n1", OUTSIDE), (&edge, "s0", EDGE)];
        for (namespace, device, address) in addresses {
            run("ip", &["-n", namespace, "address", "add", &format!("{address}/24"), "dev", device]);
            run("ip", &["-n", namespace, "link", "set", device, "up"]);
        }
        run("ip", &["-n", &node, "route", "add", "default", "via", MIDDLE]);
        run("ip", &["-n", &edge, "route", "add", "default", "via", OUTSIDE]);
        network.shell(Side::Middle, "echo 1 > /proc/sys/net/ipv4/ip_forward");
        network.shell(Side::Node, "echo 1 > /proc/sys/net/ipv4/conf/all/promote_secondaries");
        network
    }

    /// The namespace's name.
    pub(crate) fn namespace(&self, side: Side) -> String {
        let letter = match side {
            Side::Node => 'c',
            Side::Middle => 'n',
            Side::Edge => 's',
        };
        format!("{}{letter}", self.name)
    }

    /// Runs this on a thread inside the namespace; threads and processes that it starts are inside too.
    pub(crate) fn within<T: Send>(&self, side: Side, run: impl FnOnce() -> T + Send) -> T {
        let namespace = self.namespace(side);
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                let file =
                    File::open(Path::new("/run/netns").join(&namespace)).expect("the namespace is there");
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                    .expect("root may enter it");
                run()
            });
            match inside.join() {
                Ok(value) => value,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Runs a shell command inside.
    pub(crate) fn shell(&self, side: Side, script: &str) {
        run("ip", &["netns", "exec", &self.namespace(side), "sh", "-ec", script]);
    }

    /// Adds rules of nftables inside; later ones come on top.
    pub(crate) fn rules(&self, side: Side, rules: &str) {
        run("ip", &["netns", "exec", &self.namespace(side), "nft", rules]);
    }

    /// How many packets the rules with a `counter` inside have met, by rule.
    pub(crate) fn counted(&self, side: Side) -> Vec<u64> {
        let rules = run("ip", &["netns", "exec", &self.namespace(side), "nft", "list", "ruleset"]);
        let mut words = rules.split_whitespace();
        let mut counts = Vec::new();
        while words.any(|word| word == "packets") {
            counts.push(words.next().and_then(|count| count.parse().ok()).expect("a count follows"));
        }
        counts
    }

    /// From now on the middle drops every packet between node and edge.
    pub(crate) fn cut(&self) {
        self.rules(
            Side::Middle,
            "add table ip cut; add chain ip cut forward { type filter hook forward priority 0; }; \
             add rule ip cut forward meta l4proto udp drop",
        );
    }

    /// Ends [`Network::cut`].
    pub(crate) fn heal(&self) {
        self.rules(Side::Middle, "delete table ip cut");
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for side in [Side::Node, Side::Middle, Side::Edge] {
            remove(&self.namespace(side));
        }
    }
}

/// Removes what a killed test run has left behind.
fn sweep() {
    let Ok(namespaces) = std::fs::read_dir("/run/netns") else { return };
    let names = namespaces.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    for name in names {
        let Some((id, _)) = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-')) else { continue };
        if !Path::new("/proc").join(id).exists() {
            remove(&name);
        }
    }
}

fn remove(namespace: &str) {
    // Nothing to say where there is none: its making may be what has failed.
    let _gone = Command::new("ip").args(["netns", "delete", namespace]).output();
    let _gone = std::fs::remove_dir_all(Path::new("/etc/netns").join(namespace));
}

fn run(program: &str, args: &[&str]) -> String {
    match Command::new(program).args(args).output() {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).into_owned(),
        Ok(output) => {
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            panic!(
                "{program} {}: {}: {error}(these tests need root: tests/run)",
                args.join(" "),
                output.status
            )
        }
        Err(error) => panic!("{program} does not run ({error}): tests/run installs what these tests need"),
    }
}
