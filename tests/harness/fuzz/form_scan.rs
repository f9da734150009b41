//! The scan of forms against a parser that has the whole body at hand and searches it for one thing after another.

use super::pieces;
use iop_edge::scan::multipart::{HEAD_BYTES, MultipartError, MultipartScan};
use iop_edge::scan::{MODEL_BYTES, Scanned};

/// The first is short, so that it is often found by chance.
const BOUNDARIES: [&[u8]; 4] = [b"XX", b"-", b"----WebKitFormBoundary7", b"a b\n"];

/// How the body is cut, which boundary it has, and the body.
pub fn form_scan(data: &[u8]) {
    let [how, boundary, body @ ..] = data else { return };
    let boundary = BOUNDARIES[usize::from(*boundary) % BOUNDARIES.len()];
    let found = scan(&[body], boundary);
    assert_eq!(scan(&pieces(*how, body), boundary), found, "the result depends on the pieces");
    if let Err(error) = &found {
        assert!(error.offset <= body.len(), "{error}");
    }
    if let Ok(Scanned { model: Some(model), .. }) = &found {
        assert_eq!(
            &body[model.literal.clone()],
            model.value.as_bytes(),
            "the name stands where it is said to"
        );
    }
    let found =
        found.map(|found| (found.model.map(|model| (model.value, model.literal.start)), found.stream));
    assert_eq!(found.clone().ok(), naive_form(body, boundary), "the scan says {found:?}");
}

fn scan(pieces: &[&[u8]], boundary: &[u8]) -> Result<Scanned, MultipartError> {
    let mut scan = MultipartScan::new(boundary);
    let pushed = pieces.iter().try_for_each(|piece| scan.push(piece));
    let finished = scan.finish();
    assert!(pushed.is_ok() || finished == pushed.map(|()| Scanned::default()), "an error stays");
    finished
}

/// The model with the place where it stands, and whether to stream; `None` if the body is refused.
pub fn naive_form(body: &[u8], boundary: &[u8]) -> Option<(Option<(String, usize)>, bool)> {
    let delimiter = [b"\r\n--", boundary].concat();
    let padded = [b"\r\n", body].concat();
    let (mut model, mut stream) = (None, false);
    let mut at = find(&padded, 0, &delimiter)?;
    while !padded[at..].starts_with(b"--") {
        let line_end = find(&padded, at, b"\r\n")?;
        if !padded[at..line_end - 2].iter().all(|byte| matches!(byte, b' ' | b'\t')) {
            return None;
        }
        let start = if padded[line_end..].starts_with(b"\r\n") {
            line_end + 2
        } else {
            find(&padded, line_end, b"\r\n\r\n")?
        };
        let head = &padded[line_end..start];
        let next = find(&padded, start, &delimiter);
        let (name, is_plain) = name(head)?;
        match (name.as_slice(), is_plain) {
            (b"model", false) => return None,
            (b"model", true) => {
                let content = &padded[start..next? - delimiter.len()];
                if model.is_some() || content.len() > MODEL_BYTES {
                    return None;
                }
                model = Some((String::from_utf8(content.to_vec()).ok()?, start - 2));
            }
            (b"stream", true) => match padded[start..next? - delimiter.len()].to_ascii_lowercase().as_slice()
            {
                b"true" | b"1" => stream = true,
                b"false" | b"0" | b"" => stream = false,
                _ => return None,
            },
            _ => {}
        }
        at = next?;
    }
    Some((model, stream))
}

/// The end of the next `what`.
fn find(text: &[u8], from: usize, what: &[u8]) -> Option<usize> {
    Some(from + text[from..].windows(what.len()).position(|window| window == what)? + what.len())
}

/// The name of the part with this head, and whether it is a field that stands there as it is; `None` if it is refused.
fn name(head: &[u8]) -> Option<(Vec<u8>, bool)> {
    if head.len() > HEAD_BYTES {
        return None;
    }
    let mut headers = Vec::new();
    for line in head.strip_suffix(b"\n")?.split(|&byte| byte == b'\n') {
        let line = line.strip_suffix(b"\r")?.trim_ascii_end();
        if line.is_empty() {
            continue;
        }
        let colon = line.iter().position(|&byte| byte == b':')?;
        let (name, value) = (line[..colon].to_ascii_lowercase(), line[colon + 1..].trim_ascii());
        if name.is_empty() || name.iter().any(u8::is_ascii_whitespace) {
            return None;
        }
        headers.push((name, value));
    }
    let disposition = headers.iter().find(|(name, _)| name == b"content-disposition")?.1;
    let encoding = headers.iter().rfind(|(name, _)| name == b"content-transfer-encoding");
    let is_as_it_is = encoding.is_none_or(|(_, value)| {
        [&b"7bit"[..], b"8bit", b"binary"].contains(&value.to_ascii_lowercase().as_slice())
    });
    let mut parts = split_outside_quotes(disposition).into_iter();
    if !parts.next()?.trim_ascii().eq_ignore_ascii_case(b"form-data") {
        return None;
    }
    let parameters: Vec<(Vec<u8>, Option<Vec<u8>>)> = parts.filter_map(parameter).collect();
    // A quote that is not closed hides whatever follows.
    let readable = parameters.iter().map_while(|(name, value)| Some((name, value.as_ref()?)));
    let readable: Vec<(&Vec<u8>, &Vec<u8>)> = readable.collect();
    let name = readable.iter().find(|(name, _)| *name == b"name")?.1.clone();
    let is_file =
        readable.iter().any(|(name, _)| [&b"filename"[..], b"filename*"].contains(&name.as_slice()));
    Some((name, is_as_it_is && !is_file))
}

/// The value cut at its semicolons; those between quotes that begin a parameter's value do not count.
fn split_outside_quotes(value: &[u8]) -> Vec<&[u8]> {
    let (mut parts, mut start) = (Vec::new(), 0);
    // What the parser is in: before the `=` of a part, right behind it, in quotes, or anywhere else.
    let (mut before, mut behind, mut quoted, mut escaped) = (false, false, false, false);
    for (at, &byte) in value.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' if quoted => quoted = false,
            _ if quoted => {}
            b';' => {
                parts.push(&value[start..at]);
                start = at + 1;
                (before, behind) = (true, false);
            }
            b'=' if before => (before, behind) = (false, true),
            b'"' if behind => (quoted, behind) = (true, false),
            _ if !byte.is_ascii_whitespace() => behind = false,
            _ => {}
        }
    }
    parts.push(&value[start..]);
    parts
}

/// Name and value of a parameter; nothing of one without `=`, and no value where its quotes are not closed.
fn parameter(part: &[u8]) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    let equals = part.iter().position(|&byte| byte == b'=')?;
    let name = part[..equals].trim_ascii().to_ascii_lowercase();
    let value = part[equals + 1..].trim_ascii_start();
    let Some(quoted) = value.strip_prefix(b"\"") else {
        return Some((name, Some(value.trim_ascii_end().to_vec())));
    };
    let (mut text, mut bytes) = (Vec::new(), quoted.iter());
    loop {
        match bytes.next() {
            None => return Some((name, None)),
            Some(b'"') => return Some((name, Some(text))),
            Some(b'\\') => match bytes.next() {
                Some(byte) => text.push(*byte),
                None => return Some((name, None)),
            },
            Some(byte) => text.push(*byte),
        }
    }
}
