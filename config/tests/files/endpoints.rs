//! Endpoints, the patterns that allow them, addresses and names.

use iop_config::{Address, Endpoint, EndpointPattern, ModelId, NodeId, Origin, ProviderId};

fn endpoint(text: &str) -> Endpoint {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn pattern(text: &str) -> EndpointPattern {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn an_endpoint_has_one_spelling() {
    let cases = [
        ("http://127.0.0.1:8081", "http://127.0.0.1:8081"),
        ("HTTP://LocalHost:80/", "http://localhost"),
        ("https://h:443/v1//", "https://h/v1"),
        ("https://h:80/a%20b", "https://h:80/a%20b"),
        ("http://[0:0:0:0:0:0:0:1]:1/", "http://[::1]:1"),
        ("http://my_host.example/api/v1", "http://my_host.example/api/v1"),
    ];
    for (text, spelling) in cases {
        assert_eq!(endpoint(text).to_string(), spelling);
        assert_eq!(endpoint(spelling), endpoint(text), "the spelling is an endpoint too");
    }
    let parts = endpoint("https://[2001:DB8::7]:8000/base/");
    assert!(parts.https());
    assert_eq!((parts.host(), parts.port(), parts.base_path()), ("2001:db8::7", 8000, "/base"));
    assert_eq!(parts.authority(), "[2001:db8::7]:8000");
    for (text, loopback) in [
        ("http://127.9.9.9", true),
        ("http://[::1]", true),
        ("http://localhost", true),
        ("http://127.0.0.1.example", false),
    ] {
        assert_eq!(endpoint(text).is_loopback(), loopback, "{text}");
    }
}

#[test]
fn what_is_no_endpoint_is_refused() {
    let long = format!("http://h/{}", "a".repeat(2048));
    let texts = [
        "",
        "http://",
        "http:///v1",
        "127.0.0.1:8081",
        "ftp://h",
        "http//h",
        "http://h:0",
        "http://h:65536",
        "http://h:",
        "http://h:+80",
        "http://h:080",
        "http://u@h",
        "http://u:p@h",
        "http://h?q=1",
        "http://h/?q",
        "http://h#f",
        "http://h/a b",
        "http://h/../x",
        "http://h/%2",
        "http://h/%zz",
        "http://h\r\nx: y",
        "http://h\\x",
        "http://[::1",
        "http://[::1%eth0]",
        "http://[h]",
        "http://::1",
        "http://127.1",
        "http://2130706433",
        "http://0x7f.0.0.1",
        "http://127.0.0.0x1",
        "http://256.0.0.1",
        "http://1.2.3.4.5",
        "http://-h",
        "http://h-",
        "http://a..b",
        "http://h.",
        "http://größe",
        "http://*",
        &long,
    ];
    for text in texts {
        assert!(text.parse::<Endpoint>().is_err(), "{text:?} is no endpoint");
    }
}

#[test]
fn a_pattern_matches_part_by_part() {
    let cases = [
        ("http://127.0.0.1:*", "http://127.0.0.1:1", true),
        ("http://127.0.0.1:*", "http://127.0.0.1/v1", true),
        ("http://127.0.0.1:*", "https://127.0.0.1", false),
        ("http://127.0.0.1:*", "http://127.0.0.1.evil.com", false),
        ("http://127.0.0.1:*", "http://127.0.0.11", false),
        ("http://127.0.0.1:*", "http://127.0.0.2", false),
        ("http://127.0.0.1:*", "http://localhost", false),
        ("http://127.0.0.1:*", "http://[::ffff:127.0.0.1]", false),
        ("http://127.0.0.1", "http://127.0.0.1:80", true),
        ("http://127.0.0.1", "http://127.0.0.1:81", false),
        ("http://127.0.0.1:808", "http://127.0.0.1:8081", false),
        ("https://h", "https://h:443", true),
        ("http://[::1]:*", "http://[0::1]:5", true),
        ("http://GPU.lan:8000", "http://gpu.LAN:8000/v1", true),
        ("http://*:*", "http://anything.example:5", true),
        ("http://*:*", "https://anything.example:5", false),
        ("http://*:5", "http://10.0.0.7:5", true),
        ("http://*:5", "http://10.0.0.7:6", false),
        ("http://*", "http://10.0.0.7", true),
    ];
    for (text, url, expected) in cases {
        assert_eq!(pattern(text).matches(&endpoint(url)), expected, "{text} on {url}");
        assert_eq!(pattern(&pattern(text).to_string()), pattern(text), "a pattern reads back as it is shown");
    }
}

#[test]
fn what_is_no_pattern_is_refused() {
    let texts = [
        "",
        "*",
        "127.0.0.1:*",
        "http://",
        "http://:80",
        "http://127.0.0.1:*/",
        "http://127.0.0.1/v1",
        "http://127.0.0.*",
        "http://*.example.com",
        "*://h",
        "ws://h",
        "http://h:**",
        "http://h:0",
        "http://u@h",
        "http://h:",
        "http://h?x",
    ];
    for text in texts {
        assert!(text.parse::<EndpointPattern>().is_err(), "{text:?} is no pattern");
    }
}

#[test]
fn an_address_is_a_host_and_a_port() {
    for (text, host, port) in [
        ("Edge.example.com:7443", "edge.example.com", 7443),
        ("192.0.2.7:1", "192.0.2.7", 1),
        ("[2001:DB8::7]:65535", "2001:db8::7", 65535),
    ] {
        let address: Address = text.parse().expect("the address is good");
        assert_eq!((address.host(), address.port()), (host, port));
        assert_eq!(address.to_string().parse(), Ok(address));
    }
    for text in [
        "",
        "h",
        ":1",
        "h:",
        "h:0",
        "h:65536",
        "::1:7443",
        "[::1]",
        "h:1:2",
        "https://h:1",
        "h :1",
        "127.1:5",
    ] {
        assert!(text.parse::<Address>().is_err(), "{text:?} is no address");
    }
}

#[test]
fn an_origin_is_spelt_as_browsers_do() {
    for text in [
        "https://chat.example.com",
        "http://localhost:3000",
        "http://[::1]:5173",
        "tauri://localhost",
        "chrome-extension://abcdef",
    ] {
        assert!(text.parse::<Origin>().is_ok(), "{text} is an origin");
    }
    for text in [
        "",
        "*",
        "null",
        "chat.example.com",
        "https://Chat.example.com",
        "https://h/",
        "https://h:443",
        "http://h:80",
        "https://u@h",
        "https://h:08",
    ] {
        assert!(text.parse::<Origin>().is_err(), "{text:?} is no origin");
    }
}

#[test]
fn names_keep_to_their_rules_and_say_them() {
    let long = "a".repeat(64);
    for text in ["a", "gpu-a", "7", &long[..63]] {
        assert_eq!(text.parse::<NodeId>().expect("a good node id").as_str(), text);
        assert!(text.parse::<ProviderId>().is_ok());
    }
    for text in ["", "A", "a_b", "a.b", "a b", "ä", "a/b", &long] {
        assert!(text.parse::<NodeId>().is_err(), "{text:?} is no node id");
    }
    assert!("a_b.c-1".parse::<ProviderId>().is_ok());
    for text in ["ornith:35b", "org/model:tag", "größe 7", &"m".repeat(256)] {
        assert!(text.parse::<ModelId>().is_ok(), "{text:?} is a model id");
    }
    for text in ["", " m", "m ", "a\nb", "a\u{7f}", "a\u{2028}b", &"m".repeat(257)] {
        assert!(text.parse::<ModelId>().is_err(), "{text:?} is no model id");
    }
    let error = "GPU".parse::<NodeId>().expect_err("capitals are refused");
    assert_eq!(
        error.to_string(),
        "node id `GPU` is not usable, expected 1 to 63 of the characters a-z, 0-9 and -"
    );
}
