//! `iop config check`: all errors of a file at once, on stdout.

use crate::failure::Failure;
use iop_config::{Environment, LoadError};
use std::path::Path;

pub(crate) fn run(file: &Path) -> Result<(), Failure> {
    match iop_config::check(file, Environment::Unchecked) {
        Ok(kind) => {
            println!("{}: valid, {kind}", file.display());
            Ok(())
        }
        Err(LoadError::Invalid(issues)) => {
            println!("{issues}");
            Err(Failure::config(format!("{} has {} error(s)", file.display(), issues.total())))
        }
        Err(error) => Err(Failure::config(error)),
    }
}
