//! Reading a certificate file: that it is there, that it is nobody else's to read, that it is small, that it is PEM.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use rustls::pki_types::CertificateDer;
use zeroize::Zeroizing;

use super::LoadError;
use crate::bundle::Contents;

/// Largest file that is read, in bytes. A bundle is about 3 kB, each further root under 1 kB.
const MAX_BYTES: u64 = 256 * 1024;

/// Reads a file that holds a private key: only its owner may have access to it.
pub(crate) fn read_private(path: &Path) -> Result<Contents, LoadError> {
    let file = open(path)?;
    check_private(path, &file)?;
    parse(path, &file)
}

/// Reads the certificates of a file that need not be private; keys in it are left alone. There is at least one.
pub(crate) fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, LoadError> {
    let certificates = parse(path, &open(path)?)?.certificates;
    if certificates.is_empty() {
        return Err(LoadError::NoCertificate { path: path.to_owned() });
    }
    Ok(certificates)
}

fn open(path: &Path) -> Result<File, LoadError> {
    // Asked before opening, because opening a pipe would wait for a writer.
    let regular = fs::metadata(path).map_err(|error| failed(path, error))?.is_file();
    if !regular {
        return Err(failed(path, io::Error::other("it is not a regular file")));
    }
    File::open(path).map_err(|error| failed(path, error))
}

fn failed(path: &Path, reason: io::Error) -> LoadError {
    match reason.kind() {
        io::ErrorKind::NotFound => LoadError::NotFound { path: path.to_owned() },
        _ => LoadError::Unreadable { path: path.to_owned(), reason },
    }
}

#[cfg(unix)]
fn check_private(path: &Path, file: &File) -> Result<(), LoadError> {
    use std::os::unix::fs::PermissionsExt as _;

    let mode = file.metadata().map_err(|error| failed(path, error))?.permissions().mode() & 0o7777;
    match mode & 0o077 {
        0 => Ok(()),
        _ => Err(LoadError::Permissions { path: path.to_owned(), mode }),
    }
}

/// Elsewhere access is governed by lists that the standard library does not show.
#[cfg(not(unix))]
fn check_private(_path: &Path, _file: &File) -> Result<(), LoadError> {
    Ok(())
}

fn parse(path: &Path, file: &File) -> Result<Contents, LoadError> {
    let mut text = Zeroizing::new(Vec::new());
    file.take(MAX_BYTES + 1).read_to_end(&mut text).map_err(|error| failed(path, error))?;
    if text.len() as u64 > MAX_BYTES {
        return Err(LoadError::TooLarge { path: path.to_owned(), limit_bytes: MAX_BYTES });
    }
    Contents::parse(&text)
        .map_err(|what| LoadError::Malformed { path: path.to_owned(), what: what.to_owned() })
}
