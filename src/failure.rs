//! Why a command ends badly, and its exit code. The codes are for scripts and service managers: never renumbered.

use iop_config::LoadError;
use std::fmt;
use std::path::Path;
use std::process::ExitCode;

/// A message for people and the process's exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    message: String,
    /// Lines that stand before the message.
    details: String,
}

impl Failure {
    /// 2: the configuration or the arguments are wrong.
    pub(crate) fn config(message: impl fmt::Display) -> Self {
        Self::new(2, message)
    }

    /// 2: a configuration file did not load. Each of its issues has a line of its own, as `iop config check` prints them.
    pub(crate) fn load(file: &Path, error: LoadError) -> Self {
        match error {
            LoadError::Invalid(issues) => {
                let message = format!("{} has {} error(s)", file.display(), issues.total());
                Self { details: format!("{issues}\n"), ..Self::config(message) }
            }
            error @ LoadError::Read { .. } => Self::config(error),
        }
    }

    /// 4: certificates or keys are missing or do not work.
    pub(crate) fn credentials(message: impl fmt::Display) -> Self {
        Self::new(4, message)
    }

    /// 1: anything else, such as a port in use.
    pub(crate) fn other(message: impl fmt::Display) -> Self {
        Self::new(1, message)
    }

    fn new(code: u8, message: impl fmt::Display) -> Self {
        Self { code, message: message.to_string(), details: String::new() }
    }

    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}iop: {}", self.details, self.message)
    }
}
