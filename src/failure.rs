//! Why a command ends badly, and its exit code. The codes are for scripts and service managers: never renumbered.

use std::fmt;
use std::process::ExitCode;

/// A message for people and the process's exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    /// 2: the configuration or the arguments are wrong.
    pub(crate) fn config(message: impl fmt::Display) -> Self {
        Self { code: 2, message: message.to_string() }
    }

    /// 4: certificates or keys are missing or do not work.
    pub(crate) fn credentials(message: impl fmt::Display) -> Self {
        Self { code: 4, message: message.to_string() }
    }

    /// 1: anything else, such as a port in use.
    pub(crate) fn other(message: impl fmt::Display) -> Self {
        Self { code: 1, message: message.to_string() }
    }

    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "iop: {}", self.message)
    }
}
