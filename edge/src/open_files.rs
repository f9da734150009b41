//! How many clients the process can have connected without running out of open files, which would take the edge its files and
//! its operators too. Systems that have no such limit, or do not tell it, bound nothing here.

use std::num::NonZeroU32;

/// Open files that clients' connections leave to everything else: operators, listeners, QUIC, the files that are looked at.
pub(crate) const RESERVED: u64 = 128;

/// Connections of clients that there is room for: those that are wanted, or fewer, and then says so. Raises the process's own
/// limit as far as the system lets it.
pub(crate) fn room(wanted: NonZeroU32) -> NonZeroU32 {
    let needed = u64::from(wanted.get()) + RESERVED;
    match limit(needed) {
        Some(limit) if limit < needed => {
            let room = within(limit);
            tracing::warn!(
                open_files = limit,
                http.max_connections = wanted,
                "the process may have too few files open: at most {room} clients can be connected; give it {needed} \
                 (ulimit -n, or LimitNOFILE of a systemd service)"
            );
            room
        }
        _ => wanted,
    }
}

/// Connections within a limit of open files. Never none, or the edge would be of no use.
fn within(limit: u64) -> NonZeroU32 {
    let room = u32::try_from(limit.saturating_sub(RESERVED)).unwrap_or(u32::MAX);
    NonZeroU32::new(room).unwrap_or(NonZeroU32::MIN)
}

/// Files that the process may have open, after it was raised towards `needed`. `None`: any number.
#[cfg(unix)]
fn limit(needed: u64) -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let soft = current.filter(|soft| *soft < needed)?;
    let raised = maximum.map_or(needed, |hard| hard.min(needed));
    if raised > soft && setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum }).is_ok() {
        tracing::debug!(from = soft, to = raised, "raised the limit of open files");
        return Some(raised);
    }
    Some(soft)
}

#[cfg(not(unix))]
fn limit(_needed: u64) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_what_a_limit_leaves_and_never_nothing() {
        let cases =
            [(0, 1), (RESERVED, 1), (RESERVED + 1, 1), (RESERVED + 2, 2), (1024, 896), (u64::MAX, u32::MAX)];
        for (limit, room) in cases {
            assert_eq!(within(limit).get(), room, "{limit}");
        }
    }
}
