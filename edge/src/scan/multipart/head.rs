//! The head of one part, and the parameters that it and a content type have. Pure; what a part is for is all it tells.

use super::error::MultipartErrorKind;

/// What a part is to the edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    /// The model's name.
    Model,
    /// Whether the answer shall stream.
    Stream,
    /// Anything else, files too.
    Other,
}

/// The field that a part with this head is.
pub(super) fn field(head: &[u8]) -> Result<Field, MultipartErrorKind> {
    let mut disposition = None;
    let mut is_encoded = false;
    for line in head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end).filter(|line| !line.is_empty())
    {
        let colon = memchr::memchr(b':', line).ok_or(MultipartErrorKind::Head)?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        // A line that goes on with the one before would begin with white space; nobody writes that into forms any more.
        if name.is_empty() || name.iter().any(u8::is_ascii_whitespace) {
            return Err(MultipartErrorKind::Head);
        }
        if name.eq_ignore_ascii_case(b"content-disposition") {
            disposition.get_or_insert(value);
        }
        if name.eq_ignore_ascii_case(b"content-transfer-encoding") {
            let as_it_is = [&b"7bit"[..], b"8bit", b"binary"];
            is_encoded = !as_it_is.iter().any(|plain| value.eq_ignore_ascii_case(plain));
        }
    }
    let disposition = disposition.ok_or(MultipartErrorKind::NoName)?;
    let kind = disposition.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
    if !kind.eq_ignore_ascii_case(b"form-data") {
        return Err(MultipartErrorKind::NoName);
    }
    let name = parameter(disposition, b"name").ok_or(MultipartErrorKind::NoName)?;
    let is_file = parameter(disposition, b"filename").or(parameter(disposition, b"filename*")).is_some();
    match name.as_slice() {
        b"model" if is_file => Err(MultipartErrorKind::ModelIsAFile),
        b"model" if is_encoded => Err(MultipartErrorKind::ModelEncoded),
        b"model" => Ok(Field::Model),
        b"stream" if !is_file && !is_encoded => Ok(Field::Stream),
        _ => Ok(Field::Other),
    }
}

/// A parameter of a header's value, `main; name=value; name="value"`, unquoted. Of several, the first.
pub(crate) fn parameter(value: &[u8], wanted: &[u8]) -> Option<Vec<u8>> {
    let mut rest = &value[memchr::memchr(b';', value)? + 1..];
    loop {
        let equals = rest.iter().position(|&byte| matches!(byte, b'=' | b';'))?;
        let name = rest[..equals].trim_ascii();
        let has_value = rest[equals] == b'=';
        rest = rest[equals + 1..].trim_ascii_start();
        if !has_value {
            continue;
        }
        let (text, used) = parameter_value(rest)?;
        if name.eq_ignore_ascii_case(wanted) {
            return Some(text);
        }
        rest = &rest[used..];
        rest = &rest[memchr::memchr(b';', rest)? + 1..];
    }
}

/// The value at the beginning of `rest` and how many bytes it takes. `None` if its quotes are not closed.
fn parameter_value(rest: &[u8]) -> Option<(Vec<u8>, usize)> {
    if rest.first() != Some(&b'"') {
        let end = memchr::memchr(b';', rest).unwrap_or(rest.len());
        return Some((rest[..end].trim_ascii_end().to_vec(), end));
    }
    let mut text = Vec::new();
    let mut bytes = rest.iter().enumerate().skip(1);
    while let Some((at, &byte)) = bytes.next() {
        match byte {
            b'"' => return Some((text, at + 1)),
            b'\\' => text.push(*bytes.next()?.1),
            _ => text.push(byte),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_found_quoted_or_not_and_in_any_place() {
        let cases: [(&[u8], Option<&[u8]>); 9] = [
            (b"multipart/form-data; boundary=abc", Some(b"abc")),
            (b"multipart/form-data;charset=utf-8 ; Boundary = \"a b\" ; x=y", Some(b"a b")),
            (b"multipart/form-data; note=\"; boundary=no\"; boundary=yes", Some(b"yes")),
            (b"multipart/form-data; boundary=\"a\\\"b\"", Some(b"a\"b")),
            (b"multipart/form-data; flag; boundary=a", Some(b"a")),
            (b"multipart/form-data; boundary=", Some(b"")),
            (b"multipart/form-data; boundary=\"open", None),
            (b"multipart/form-data; boundaryx=a", None),
            (b"multipart/form-data", None),
        ];
        for (value, expected) in cases {
            let found = parameter(value, b"boundary");
            assert_eq!(found.as_deref(), expected, "{}", String::from_utf8_lossy(value));
        }
    }
}
