//! The scan by example, and against serde_json on random, mutated and cut bodies.

use bytes::Bytes;
use proptest::prelude::*;

use iop_edge::scan::{
    BodyScan, MAX_DEPTH, MODEL_BYTES, ScanError, ScanErrorKind as Kind, Scanned, TextCount, estimate_tokens,
    replace_model,
};
use iop_tests::fuzz::check_against_serde_json;

/// Whole, and byte by byte.
fn check(body: impl AsRef<[u8]>) -> Result<Scanned, ScanError> {
    let body = body.as_ref();
    let every: Vec<usize> = (0..body.len()).collect();
    check_against_serde_json(body, &every)
}

fn found(body: impl AsRef<[u8]>) -> Scanned {
    check(body).expect("the body is valid")
}

fn refused(body: impl AsRef<[u8]>) -> (usize, Kind) {
    let error = check(body).expect_err("the body is refused");
    (error.offset, error.kind)
}

fn nested(levels: u32) -> String {
    let inner = levels as usize - 1;
    format!(r#"{{"a":{}{}}}"#, "[".repeat(inner), "]".repeat(inner))
}

#[test]
fn finds_the_model_and_where_it_is() {
    let body = r#" {"x":{"model":"inner"}, "mod\u0065l" : "a\/b\u00e9\ud83d\ude00", "y":["model"]}"#;
    let model = found(body).model.expect("there is a model");
    assert_eq!(model.value, "a/bé😀");
    assert_eq!(&body[model.literal], r#""a\/b\u00e9\ud83d\ude00""#);
}

#[test]
fn finds_the_fields_of_a_request() {
    let scanned = found(
        r#"{"model":"m","messages":[{"role":"user","content":"hello"}],"stream":true,
            "stream_options":{"include_usage":true,"x":{"include_usage":false}},"max_tokens":7}"#,
    );
    assert!(scanned.stream && scanned.include_usage);
    assert_eq!(scanned.max_tokens, Some(7));
    assert_eq!(scanned.text, TextCount { bytes: "m".len() as u64 + "userhello".len() as u64, cjk: 0 });
    let bare = found("{}");
    assert_eq!(bare, Scanned::default());
}

#[test]
fn fields_count_only_in_their_place_and_form() {
    for body in [
        r#"{"x":{"stream":true}}"#,
        r#"{"stream":null}"#,
        r#"{"stream":true,"stream":false}"#,
        r#"{"stream_options":{"include_usage":1}}"#,
        r#"{"stream_options":{"include_usage":true},"stream_options":null}"#,
        r#"{"stream_options":[{"include_usage":true}]}"#,
        r#"{"stream_options":{"x":{"include_usage":true}}}"#,
        r#"{"options":{"include_usage":true}}"#,
        r#"{"include_usage":true}"#,
        r#"{"max_tokens":1.0,"max_output_tokens":-0,"max_completion_tokens":1e3}"#,
        r#"{"max_tokens":5,"max_tokens":18446744073709551616}"#,
        r#"{"max_tokens":[5]}"#,
    ] {
        let scanned = found(body);
        let empty = TextCount::default();
        assert_eq!(scanned, Scanned { text: empty, ..Scanned::default() }, "{body}");
    }
    let limits = r#"{"max_tokens":3,"max_completion_tokens":0,"max_output_tokens":18446744073709551615}"#;
    assert_eq!(found(limits).max_tokens, Some(u64::MAX));
}

#[test]
fn refuses_what_is_wrong_and_says_where() {
    let long = format!(r#"{{"model":"{}"}}"#, "m".repeat(MODEL_BYTES + 1));
    let cases: &[(&[u8], usize, Kind)] = &[
        (br#"{"model":"a","model":"a"}"#, 13, Kind::DuplicateModel),
        (br#"{"model":"a","m\u006fdel":"b"}"#, 13, Kind::DuplicateModel),
        (br#"{"model":1}"#, 9, Kind::ModelNotAString),
        (br#"{"model": null}"#, 10, Kind::ModelNotAString),
        (br#"{"stream":"true"}"#, 10, Kind::StreamNotABool),
        (br#"{"stream":1}"#, 10, Kind::StreamNotABool),
        (long.as_bytes(), 9, Kind::ModelTooLong),
        (b"", 0, Kind::Truncated),
        (b"  ", 2, Kind::Truncated),
        (br#"{"a":"\ud83d"#, 12, Kind::Truncated),
        (b"{\"a\":\"\xE4\xB8", 8, Kind::Truncated),
        (br#"{"a":1"#, 6, Kind::Truncated),
        (b"[]", 0, Kind::NotAnObject),
        (b" 1", 1, Kind::NotAnObject),
        (b"\"model\"", 0, Kind::NotAnObject),
        (b"{\"a\":\"\xFF\"}", 6, Kind::Utf8),
        (b"{\"a\":\"\xED\xA0\x80\"}", 7, Kind::Utf8),
        (b"{\"a\":\"\xE4\xB8\"}", 8, Kind::Utf8),
        (b"{\"a\":\"\xE4\\n\"}", 7, Kind::Utf8),
        (b"{\"\xC0\x80\":1}", 2, Kind::Utf8),
    ];
    for (body, offset, kind) in cases {
        assert_eq!(refused(body), (*offset, *kind), "{}", String::from_utf8_lossy(body));
    }
}

#[test]
fn refuses_what_is_not_json() {
    for body in [
        "\u{feff}{}",
        "x",
        "}",
        "{]",
        "{,}",
        "{1:2}",
        "{\"a\"}",
        "{\"a\" 1}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{\"a\":1]",
        "{\"a\":[1,]}",
        "{\"a\":[,1]}",
        "{\"a\":[1}}",
        "{\"a\":[1 2]}",
        "{\"a\":01}",
        "{\"a\":-}",
        "{\"a\":-01}",
        "{\"a\":+1}",
        "{\"a\":.5}",
        "{\"a\":1.}",
        "{\"a\":1.e1}",
        "{\"a\":1e}",
        "{\"a\":1e+}",
        "{\"a\":0x1}",
        "{\"a\":1e309}",
        "{\"a\":-1e309}",
        "{\"a\":1e99999999999}",
        "{\"a\":NaN}",
        "{\"a\":tru}",
        "{\"a\":trux}",
        "{\"a\":nulll}",
        "{\"a\":True}",
        "{\"a\":'b'}",
        "{\"a\":\"\u{1}\"}",
        "{\"a\":\"\n\"}",
        "{\"a\":\"\\x\"}",
        "{\"a\":\"\\u12g4\"}",
        "{\"a\":\"\\u123\"}",
        "{\"a\":\"\\udc00\"}",
        "{\"a\":\"\\ud800\"}",
        "{\"a\":\"\\ud800x\"}",
        "{\"a\":\"\\ud800\\n\"}",
        "{\"a\":\"\\ud800\\ud800\"}",
        "{\"a\":\"\\ud800\\u0041\"}",
        "{} x",
        "{}{}",
        "{}\0",
        "{/**/}",
        "{\"a\":1}\u{a0}",
        "{\"a\":\"b\"\u{c}}",
    ] {
        let (_, kind) = refused(body);
        assert!(matches!(kind, Kind::Syntax(_)), "{body}: {kind}");
    }
}

#[test]
fn accepts_every_form_of_json() {
    for body in [
        " \t\r\n{ } \n",
        "{\"a\":[]}",
        "{\"a\":[ ]}",
        "{\"a\":{}}",
        "{\"\":0}",
        "{\"a\":-0}",
        "{\"a\":0.0}",
        "{\"a\":0e0}",
        "{\"a\":1E+2}",
        "{\"a\":1e-99999999999}",
        "{\"a\":0e99999999999}",
        "{\"a\":1.7e308}",
        "{\"a\":123456789012345678901234567890.123456789012345678901234567890e-5}",
        "{\"a\":1 }",
        "{\"a\":[1,2 ,3]}",
        "{\"a\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\\uD83D\\uDe00\"}",
        "{\"a\":\"\u{7f}é中😀\u{10ffff}\"}",
        "{\"a\":[true,false,null,{\"b\":[[]]}]}",
        "{\"a\":1,\"a\":2}",
    ] {
        found(body);
    }
}

#[test]
fn numbers_end_where_serde_json_ends_the_range_of_doubles() {
    let mut refused = 0;
    for digits in
        ["1", "17976931348623157", "17976931348623159", "18446744073709551615", "18446744073709551616"]
    {
        for point in 0..=digits.len() {
            let (whole, fraction) = digits.split_at(point);
            let dot = if fraction.is_empty() { "" } else { "." };
            let whole = if whole.is_empty() { "0" } else { whole };
            for exponent in 285..=330 {
                let body = format!("{{\"a\":{whole}{dot}{fraction}e{exponent}}}");
                refused += u32::from(check_against_serde_json(body.as_bytes(), &[]).is_err());
            }
        }
    }
    assert!(refused > 100, "the cases lie on both sides");
    let long = format!("{{\"a\":1{}}}", "0".repeat(308));
    found(&long);
    let longer = format!("{{\"a\":1{}}}", "0".repeat(309));
    assert!(matches!(check(longer).expect_err("out of range").kind, Kind::Syntax(_)));
}

#[test]
fn nesting_is_limited_where_serde_json_limits_it() {
    found(nested(MAX_DEPTH));
    assert_eq!(refused(nested(MAX_DEPTH + 1)), (5 + MAX_DEPTH as usize - 1, Kind::Depth));
    let (_, kind) = refused(format!("{{\"a\":{}", "[".repeat(100_000)));
    assert_eq!(kind, Kind::Depth);
}

#[test]
fn messages_name_the_byte_and_the_fault() {
    let message = |body: &str| check(body).expect_err("refused").to_string();
    assert_eq!(message("{\"a\" 1}"), "request body, byte 5: not valid JSON: expected ':' after a key");
    assert_eq!(message("{\"model\":1}"), "request body, byte 9: \"model\" must be a string");
    assert_eq!(message("{"), "request body, byte 1: the body ends before its JSON object is complete");
}

#[test]
fn an_error_stays() {
    let mut scan = BodyScan::new();
    let error = scan.push(b"{\"a\" x").expect_err("refused");
    assert_eq!(scan.push(b":1}"), Err(error));
    assert_eq!(scan.finish(), Err(error));
}

#[test]
fn text_is_counted_without_files() {
    let base64 = "QUJD".repeat(300);
    let count = |body: String| found(body).text;
    for value in [
        format!(r#"{{"image_url":{{"url":"data:image/png;base64,{base64}"}}}}"#),
        format!(r#"{{"image_url":"data:image/png;base64,{base64}"}}"#),
        format!(r#"{{"source":{{"data":"{base64}"}}}}"#),
        format!(r#"{{"file":{{"file_data":"{base64}"}},"b64_json":"{base64}"}}"#),
    ] {
        assert_eq!(count(value), TextCount::default());
    }
    let text = format!(r#"{{"text":"{base64}","x":["data: {base64}"],"url":"http://a"}}"#);
    assert_eq!(count(text), TextCount { bytes: 2 * 1200 + 6 + 8, cjk: 0 });
    assert_eq!(count(r#"{"a":"né中\u4e2d한カ\ud840\udc00\n"}"#.into()), TextCount { bytes: 4, cjk: 5 });
}

#[test]
fn tokens_are_estimated_from_the_text() {
    for (bytes, cjk, tokens) in
        [(0, 0, 0), (1, 0, 1), (4, 0, 1), (5, 0, 2), (8, 3, 5), (u64::MAX, u64::MAX, u32::MAX)]
    {
        assert_eq!(estimate_tokens(&TextCount { bytes, cjk }), tokens);
    }
}

#[test]
fn the_rest_of_the_body_is_not_copied_when_the_model_is_replaced() {
    let body = Bytes::from_static(br#"{"model":"a","x":"yz"}"#);
    let chunks = vec![body.slice(..4), body.slice(4..10), body.slice(10..)];
    let replaced = replace_model(chunks, 9..12, Bytes::from_static(b"\"b\\\"c\""));
    assert_eq!(replaced.concat(), br#"{"model":"b\"c","x":"yz"}"#);
    assert_eq!(replaced.len(), 4);
    for (chunk, start) in [(&replaced[0], 0), (&replaced[1], 4), (&replaced[3], 12)] {
        assert_eq!(chunk.as_ptr(), body[start..].as_ptr());
    }
}

fn text() -> impl Strategy<Value = String> {
    const WORDS: &[&str] = &[
        "model",
        "stream",
        "stream_options",
        "include_usage",
        "max_tokens",
        "data",
        "url",
        "data:a/b;base64,c",
    ];
    prop_oneof![
        3 => prop::sample::select(WORDS).prop_map(str::to_owned),
        2 => prop::collection::vec(any::<char>(), 0..6).prop_map(String::from_iter),
        1 => (500_usize..1100).prop_map(|length| "é".repeat(length)),
    ]
}

fn value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        text().prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            prop::collection::vec((text(), inner), 0..6)
                .prop_map(|members| members.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    })
}

/// Objects as text, so that keys repeat and are written with escapes.
fn body() -> impl Strategy<Value = String> {
    prop::collection::vec((text(), value(), any::<bool>()), 0..6).prop_map(|members| {
        let write = |(key, value, escape): &(String, serde_json::Value, bool)| {
            let mut key = serde_json::to_string(key).expect("a string is JSON");
            if *escape {
                key = key.replace('o', "\\u006f").replace('é', "\\u00e9");
            }
            format!("{key}:{value}")
        };
        let members: Vec<String> = members.iter().map(write).collect();
        format!("{{{}}}", members.join(", "))
    })
}

proptest! {
    // No files beside the sources: a failure prints its input. PROPTEST_CASES sets how many cases there are.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_serde_json_on_any_object(body in body(), splits in prop::collection::vec(any::<usize>(), 0..8)) {
        let _ = check_against_serde_json(body.as_bytes(), &splits);
        let _ = check(body);
    }

    #[test]
    fn agrees_with_serde_json_on_damaged_objects(
        body in body(),
        damage in prop::collection::vec((any::<usize>(), prop_oneof![
            prop::sample::select(&b"{}[]\",:\\u0e-.+ \n\x01\x80\xC3\xED\xF4tfn"[..]), any::<u8>(),
        ], 0..3_u8), 1..4),
        splits in prop::collection::vec(any::<usize>(), 0..8),
    ) {
        let mut body = body.into_bytes();
        for (at, byte, how) in damage {
            let at = at % body.len().max(1);
            match how {
                0 if at < body.len() => body[at] = byte,
                1 if at < body.len() => { body.remove(at); }
                _ => body.insert(at, byte),
            }
        }
        let _ = check_against_serde_json(&body, &splits);
    }

    #[test]
    fn agrees_with_serde_json_on_strings_of_tokens(tokens in prop::collection::vec(prop::sample::select(&[
        "{", "}", "[", "]", ":", ",", "\"", "\"model\"", "\"a\"", "\\u", "\\", "d83d", "\\ude00", "0", "1", "-", ".", "e",
        "5e307", "true", "null", " ", "é",
    ][..]), 0..14)) {
        let _ = check(format!("{{\"a\":{}", tokens.concat()));
        let _ = check(format!("{{\"model\":\"{}\"}}", tokens.concat()));
    }
}
