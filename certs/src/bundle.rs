//! The text of certificate files: PEM sections to keys and certificates, and back. No files here.

use pem::{EncodeConfig, LineEnding, Pem};
use rustls::pki_types::pem::{PemObject, SectionKind};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use zeroize::Zeroizing;

/// What a file holds, in the file's order. Sections of other kinds are passed over.
pub(crate) struct Contents {
    pub(crate) keys: Vec<PrivateKeyDer<'static>>,
    pub(crate) certificates: Vec<CertificateDer<'static>>,
}

impl Contents {
    /// Splits a file's text. The error is a phrase for a message, and holds nothing of the text.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, &'static str> {
        let mut contents = Self { keys: Vec::new(), certificates: Vec::new() };
        for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(text) {
            let (kind, der) = section.map_err(phrase)?;
            if kind == SectionKind::Certificate {
                contents.certificates.push(CertificateDer::from(der));
            } else if let Some(key) = PrivateKeyDer::from_pem(kind, der) {
                contents.keys.push(key);
            }
        }
        Ok(contents)
    }
}

/// A damaged section may be a key, so the parser's own message, which quotes the text, is not passed on.
fn phrase(error: rustls::pki_types::pem::Error) -> &'static str {
    use rustls::pki_types::pem::Error;
    match error {
        Error::MissingSectionEnd { .. } => "a section has a BEGIN line and no END line",
        Error::IllegalSectionStart { .. } => "a BEGIN line is damaged",
        Error::Base64Decode(_) => "a section is not base64",
        _ => "it is not PEM",
    }
}

/// One certificate as a file's text.
pub(crate) fn certificate(certificate: &CertificateDer<'_>) -> Zeroizing<String> {
    Zeroizing::new(section("CERTIFICATE", certificate))
}

/// A PKCS#8 key, then certificates in the order given, as a file's text.
pub(crate) fn with_key<'a>(
    key: &[u8],
    certificates: impl IntoIterator<Item = &'a CertificateDer<'static>>,
) -> Zeroizing<String> {
    let mut text = Zeroizing::new(section("PRIVATE KEY", key));
    for certificate in certificates {
        text.push_str(&section("CERTIFICATE", certificate));
    }
    text
}

fn section(tag: &str, der: &[u8]) -> String {
    pem::encode_config(&Pem::new(tag, der), EncodeConfig::new().set_line_ending(LineEnding::LF))
}
