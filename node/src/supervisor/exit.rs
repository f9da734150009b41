//! Why a node's process ends, and the exit code that says so.

use std::fmt;

/// The reason for which a node ends by itself. The codes are for service managers and scripts: never renumbered.
///
/// | code | meaning |
/// | --- | --- |
/// | 0 | stopped by a local signal |
/// | 2 | the configuration cannot work |
/// | 3 | the allowed attempts are used up |
/// | 4 | the node's certificate is missing, bad or refused, or the edge's is not of this deployment |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// This process was told to stop.
    Stopped,
    /// The configuration cannot work.
    BadConfig,
    /// `reconnect.max_attempts` dials in a row came to nothing.
    Exhausted,
    /// Certificates that do not work, on either side; waiting does not mend them.
    Credentials,
}

impl Exit {
    /// The exit code of the process.
    pub fn code(self) -> u8 {
        match self {
            Self::Stopped => 0,
            Self::BadConfig => 2,
            Self::Exhausted => 3,
            Self::Credentials => 4,
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stopped => "stopped",
            Self::BadConfig => "the configuration cannot work",
            Self::Exhausted => "reconnect.max_attempts is used up",
            Self::Credentials => "the certificates do not work",
        })
    }
}
