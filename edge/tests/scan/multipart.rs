//! The scan against examples and against a naive parser that has the whole body at hand.

use iop_edge::scan::multipart::{HEAD_BYTES, MultipartError, MultipartErrorKind, MultipartScan};
use iop_edge::scan::{MODEL_BYTES, Scanned};
use iop_tests::fuzz::naive_form;
use proptest::prelude::*;

const BOUNDARY: &str = "XX";

/// Scans `body` in chunks of `size` bytes.
fn scan(body: &[u8], boundary: &str, size: usize) -> Result<Scanned, MultipartError> {
    let mut scan = MultipartScan::new(boundary.as_bytes());
    let pushed = body.chunks(size).try_for_each(|chunk| scan.push(chunk));
    let finished = scan.finish();
    assert!(pushed.is_ok() || finished == pushed.map(|()| Scanned::default()), "an error stays");
    finished
}

/// Scans `body` cut in several ways, which must make no difference.
fn check(body: &[u8]) -> Result<Scanned, MultipartError> {
    let whole = scan(body, BOUNDARY, body.len().max(1));
    for size in [1, 2, 3, 7, 64] {
        assert_eq!(scan(body, BOUNDARY, size), whole, "in chunks of {size}");
    }
    whole
}

fn part(head: &str, content: &str) -> String {
    format!("--{BOUNDARY}\r\n{head}\r\n\r\n{content}\r\n")
}

fn field(name: &str, content: &str) -> String {
    part(&format!("Content-Disposition: form-data; name=\"{name}\""), content)
}

fn closed(parts: &[String]) -> String {
    format!("{}--{BOUNDARY}--\r\n", parts.concat())
}

#[test]
fn model_and_stream_are_found_wherever_they_stand() {
    let file = "content-disposition: form-data; filename=\"a;name=\\\"model\\\".wav\"; name=\"file\"\r\nContent-Type: audio/wav";
    let file = part(file, "RIFF\r\n--X\r\n\r\r\n--\r\nname=\"model\"");
    let parts = [field("model", "whisper-1"), field("stream", "true"), file];
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [2, 0, 1]] {
        let body = closed(&order.map(|index| parts[index].clone()));
        let found = check(body.as_bytes()).expect("a good body");
        let model = found.model.expect("the model was found");
        assert_eq!((model.value.as_str(), &body[model.literal]), ("whisper-1", "whisper-1"));
        assert!(found.stream);
    }
}

#[test]
fn what_the_standard_allows_is_taken() {
    let model = field("model", "m");
    for body in [
        format!("ignored\r\n{}", closed(std::slice::from_ref(&model))),
        format!("\r\n{}after\r\n--{BOUNDARY}\r\nnothing", closed(std::slice::from_ref(&model))),
        closed(std::slice::from_ref(&model)).replacen("--XX\r\n", "--XX \t\r\n", 1),
        closed(&[part("CONTENT-DISPOSITION:form-data;NAME=model", "m")]),
        closed(&[part(
            "Content-Disposition: form-data; name=\"model\"\r\nContent-Transfer-Encoding: 8bit",
            "m",
        )]),
        closed(&[model]).trim_end().to_owned(),
    ] {
        let found = check(body.as_bytes()).unwrap_or_else(|error| panic!("{error} in {body:?}"));
        assert_eq!(found.model.map(|model| model.value).as_deref(), Some("m"), "{body:?}");
    }
    let empty = check(closed(&[field("model", "")]).as_bytes()).expect("a good body").model;
    assert_eq!(empty.map(|model| (model.value, model.literal.len())), Some((String::new(), 0)));
    assert_eq!(check(closed(&[field("other", "m")]).as_bytes()), Ok(Scanned::default()));
}

#[test]
fn what_is_wrong_is_named() {
    use MultipartErrorKind::*;
    let model = field("model", "m");
    let header = |lines: &str| part(&format!("Content-Disposition: form-data; name=\"model\"{lines}"), "m");
    let cases = [
        (String::new(), NoBoundary),
        ("{\"model\":\"m\"}".to_owned(), NoBoundary),
        (model.clone(), Truncated),
        (format!("{model}--XX"), Truncated),
        (format!("{model}--XX-"), Truncated),
        (format!("{model}--XXX\r\n"), BoundaryLine),
        (format!("{model}--XX-x"), BoundaryLine),
        (format!("--XX\r\n{}", "x".repeat(HEAD_BYTES + 1)), HeadTooLong),
        (model.replace("\r\n", "\n"), BoundaryLine),
        (format!("--XX\r\n{}", &model[6..].replace("\r\n", "\n")), BareLineFeed),
        (closed(&[part("no header", "m")]), Head),
        (closed(&[header("\r\n folded: x")]), Head),
        (closed(&["--XX\r\n\r\nm\r\n".to_owned()]), NoName),
        (closed(&[part("Content-Type: text/plain", "m")]), NoName),
        (closed(&[part("Content-Disposition: attachment; name=\"model\"", "m")]), NoName),
        (closed(&[part("Content-Disposition: form-data", "m")]), NoName),
        (closed(&[model.clone(), model]), DuplicateModel),
        (closed(&[header("; filename=\"m.txt\"")]), ModelIsAFile),
        (closed(&[header("\r\nContent-Transfer-Encoding: base64")]), ModelEncoded),
        (closed(&[field("model", &"m".repeat(MODEL_BYTES + 1))]), ModelTooLong),
        (closed(&[field("stream", "perhaps")]), StreamNotABool),
        (closed(&[field("stream", &"1".repeat(99))]), StreamNotABool),
    ];
    for (body, kind) in cases {
        assert_eq!(check(body.as_bytes()).map_err(|error| error.kind), Err(kind), "{body:?}");
    }
    let bytes =
        [b"--XX\r\nContent-Disposition: form-data; name=model\r\n\r\n\xff", &b"\r\n--XX--"[..]].concat();
    assert_eq!(check(&bytes).map_err(|error| error.kind), Err(ModelNotText));
}

proptest! {
    #[test]
    fn the_scan_agrees_with_a_parser_that_has_the_whole_body(
        parts in prop::collection::vec(
            (
                prop::sample::select(vec!["model", "stream", "file", "prompt"]),
                prop::sample::select(vec!["", "; filename=\"f\""]),
                prop::collection::vec(
                    prop::sample::select(vec!["\r", "\n", "-", "X", "\r\n--X", "\r\n--", "true", "m", "1", " ", "é"]),
                    0..6,
                ),
            ),
            0..5,
        ),
        tail in prop::sample::select(vec!["--XX--", "--XX", "", "--XX--\r\nrest"]),
        size in 1usize..40,
    ) {
        let parts: String = parts
            .iter()
            .map(|(name, file, content)| {
                part(&format!("Content-Disposition: form-data; name=\"{name}\"{file}"), &content.concat())
            })
            .collect();
        let body = format!("{parts}{tail}");
        let found = scan(body.as_bytes(), BOUNDARY, size).ok();
        let found = found.map(|found| {
            (found.model.map(|model| (model.value, model.literal.start)), found.stream)
        });
        prop_assert_eq!(found, naive_form(body.as_bytes(), BOUNDARY.as_bytes()), "{:?}", body);
    }

    #[test]
    fn any_bytes_are_answered_the_same_however_they_are_cut(
        body in prop::collection::vec(prop::sample::select(b"\r\n-X: ;=\"model\xffab".to_vec()), 0..200),
        size in 1usize..50,
    ) {
        prop_assert_eq!(scan(&body, BOUNDARY, size), scan(&body, BOUNDARY, body.len().max(1)));
    }
}
