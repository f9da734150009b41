//! Good files: what each key becomes, and what holds without it.

use std::num::{NonZeroU32, NonZeroU64};
use std::path::Path;
use std::time::Duration;

use iop_config::{Adapter, CorsOrigins, EdgeConfig, Reconnect};

use crate::full::{full_edge, full_node};
use crate::{edge, node};

#[test]
fn every_setting_of_an_edge_file_arrives_where_it_belongs() {
    let config = full_edge();
    assert_eq!(config.quic.listen.to_string(), "[::]:7443");
    assert_eq!(config.quic.idle_timeout, Duration::from_secs(20));
    assert!(!config.quic.segmentation_offload);
    assert_eq!(config.http.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.http.max_connections.get(), 100);
    assert_eq!((config.http.max_body_bytes, config.http.max_buffered_bytes), (1000, 2000));
    assert_eq!(config.http.write_stall_timeout, Duration::from_secs(3));
    assert_eq!(config.http.sse_keep_alive, Some(Duration::from_secs(15)));
    let tls = config.http.tls.as_ref().expect("it is written");
    assert_eq!(
        (tls.cert.as_path(), tls.key.as_path()),
        (Path::new("/etc/iop/tls.pem"), Path::new("/keys/tls.key"))
    );
    assert_eq!(
        config.http.cors_origins,
        CorsOrigins::Only(vec!["https://a.example".parse().expect("an origin")])
    );
    assert_eq!(config.admin.listen.to_string(), "127.0.0.1:9090");
    assert_eq!(config.admin.key.as_ref().map(|key| key.expose()), Some("operator-secret"));
    assert_eq!(config.certs.dir, Path::new("/etc/iop/pki"));
    assert_eq!(config.auth.keys.len(), 2);
    assert_eq!(config.provider_pool.max_queue, 6);
    assert_eq!(config.provider_pool.queue_timeout, Duration::from_secs(7));
    assert_eq!(config.provider_pool.max_attempts.get(), 3);

    let [node] = config.nodes.as_slice() else { panic!("there is one node") };
    let [llama, echo] = node.providers.as_slice() else { panic!("there are two providers") };
    assert_eq!((node.id.as_str(), llama.id.as_str(), echo.id.as_str()), ("gpu-a", "llama", "echo"));
    assert_eq!((llama.capacity.get(), llama.long_context_capacity), (8, 2));
    assert_eq!(llama.context_window_tokens, NonZeroU64::new(9000));
    assert_eq!(llama.total_context_tokens, NonZeroU64::new(18000));
    assert_eq!((llama.priority, llama.enabled), (-1, false));
    let Adapter::OpenAi(upstream) = &llama.adapter else { panic!("llama is an openai provider") };
    assert_eq!(upstream.endpoint.to_string(), "http://127.0.0.1:8081/v1");
    assert_eq!(upstream.api_key_env.as_ref().map(|name| name.as_str()), Some("LLAMA_KEY"));
    assert_eq!(upstream.headers["x-team"].expose(), "red fox", "names are in lower case");
    assert_eq!(upstream.connect_timeout, Duration::from_millis(10));
    assert_eq!(upstream.first_byte_timeout, Duration::from_millis(11));
    assert_eq!(upstream.idle_timeout, Duration::from_millis(12));
    let words = NonZeroU32::new(14).expect("not zero");
    assert_eq!(echo.adapter, Adapter::Echo { word_interval: Duration::from_millis(13), words });

    let [model] = config.models.as_slice() else { panic!("there is one model") };
    assert_eq!(model.id.as_str(), "ornith:35b");
    assert_eq!(model.long_context_threshold_tokens, NonZeroU64::new(15));
    assert_eq!(model.context_length, NonZeroU64::new(16));
    assert_eq!(model.owned_by.as_ref().map(|owner| owner.as_str()), Some("us"));
    let [candidate] = model.candidates.as_slice() else { panic!("there is one candidate") };
    assert_eq!((candidate.node.as_str(), candidate.provider.as_str()), ("gpu-a", "llama"));
    assert_eq!(candidate.upstream_model.as_ref().map(|model| model.as_str()), Some("ornith"));
}

#[test]
fn an_edge_file_without_settings_has_the_documented_defaults() {
    let config = edge("certs: { dir: /pki }\n").expect("certs are enough");
    assert_eq!(config.quic.listen.to_string(), "[::]:7443");
    assert_eq!(config.quic.idle_timeout, Duration::from_secs(10));
    assert!(config.quic.segmentation_offload);
    assert_eq!(config.http.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.http.max_connections.get(), 4096);
    assert_eq!((config.http.max_body_bytes, config.http.max_buffered_bytes), (64 << 20, 512 << 20));
    assert_eq!(config.http.write_stall_timeout, Duration::from_secs(60));
    assert_eq!((config.http.sse_keep_alive, &config.http.tls), (None, &None));
    assert_eq!(config.http.cors_origins, CorsOrigins::Any);
    assert_eq!((config.admin.listen.to_string().as_str(), &config.admin.key), ("127.0.0.1:9090", &None));
    assert_eq!(config.certs.dir, Path::new("/pki"));
    assert!(config.auth.keys.is_empty() && config.nodes.is_empty() && config.models.is_empty());
    assert_eq!(config.provider_pool.max_queue, 256);
    assert_eq!(config.provider_pool.queue_timeout, Duration::from_secs(30));
    assert_eq!(config.provider_pool.max_attempts.get(), 2);

    let text = "certs: { dir: /pki }\nnodes: [ { id: a, providers: [ { id: p, adapter: ollama, endpoint: \"http://h\", capacity: 1 }, { id: q, adapter: echo, capacity: 1 } ] } ]\n";
    let config = edge(text).expect("the file is good");
    let [ollama, echo] = config.nodes[0].providers.as_slice() else { panic!("there are two providers") };
    assert_eq!((ollama.long_context_capacity, ollama.priority, ollama.enabled), (0, 0, true));
    let Adapter::Ollama(upstream) = &ollama.adapter else { panic!("the first is an ollama provider") };
    assert_eq!(upstream.connect_timeout, Duration::from_secs(5));
    assert_eq!(upstream.first_byte_timeout, Duration::from_secs(600));
    assert_eq!(upstream.idle_timeout, Duration::from_secs(120));
    assert!(upstream.headers.is_empty() && upstream.api_key_env.is_none());
    let words = NonZeroU32::new(32).expect("not zero");
    assert_eq!(echo.adapter, Adapter::Echo { word_interval: Duration::from_millis(20), words });
}

#[test]
fn sections_and_lists_with_nothing_in_them_count_as_not_written() {
    let empty = "certs: { dir: /pki }\nquic:\nhttp:\n  cors_origins:\nadmin: ~\nauth:\n  keys:\nprovider_pool: {}\nnodes:\nmodels: null\n";
    assert_eq!(edge(empty), edge("certs: { dir: /pki }\n"));
}

#[test]
fn web_origins_are_any_some_or_none() {
    let origins = |list: &str| {
        let text = format!("certs: {{ dir: pki }}\nhttp: {{ cors_origins: {list} }}\n");
        edge(&text).expect("the file is good").http.cors_origins
    };
    assert_eq!(origins("[\"*\"]"), CorsOrigins::Any);
    assert_eq!(origins("[]"), CorsOrigins::Only(Vec::new()));
}

#[test]
fn every_setting_of_a_node_file_arrives_where_it_belongs() {
    let config = full_node();
    assert_eq!(config.edge.addresses, ["edge.example.com:7443".parse().expect("an address")]);
    assert_eq!(config.edge.server_name.as_ref().map(|name| name.as_str()), Some("edge.internal"));
    assert_eq!(config.certs.bundle, Path::new("/keys/gpu-a.pem"));
    let max_attempts = NonZeroU32::new(3).expect("not zero");
    assert_eq!(config.reconnect, Reconnect::Limited { max_attempts, interval_sec: 0 });
    assert_eq!(config.keep_alive, Duration::from_millis(500));
    assert_eq!(config.allow_endpoints, ["http://10.0.0.7:8000".parse().expect("a pattern")]);
    assert!(!config.segmentation_offload);
}

/// [node-connectivity-supervision]
#[test]
fn a_node_file_without_settings_has_the_documented_defaults() {
    let config = node("edge: { addresses: [\"127.0.0.1:7443\"] }\ncerts: { bundle: gpu-a.pem }\n")
        .expect("an address and a bundle are enough");
    assert_eq!(config.edge.server_name, None);
    assert_eq!(config.certs.bundle, Path::new("/etc/iop/gpu-a.pem"));
    assert_eq!(config.reconnect.max_attempts().map(NonZeroU32::get), Some(10));
    assert_eq!(config.reconnect.interval(), Duration::from_secs(10));
    assert_eq!(config.keep_alive, Duration::from_secs(3));
    assert!(config.segmentation_offload);
    for (url, allowed) in [
        ("http://127.0.0.1:8081", true),
        ("https://127.0.0.1", true),
        ("http://localhost:1", true),
        ("http://[::1]:8081/v1", true),
        ("http://127.0.0.2:8081", false),
        ("http://10.0.0.7:8081", false),
        ("http://127.0.0.1.evil.com", false),
        ("http://localhost.evil.com", false),
    ] {
        assert_eq!(config.allows(&url.parse().expect("an endpoint")), allowed, "{url}");
    }
}

#[test]
fn unlimited_attempts_have_no_number() {
    let text = "edge: { addresses: [\"h:1\"] }\ncerts: { bundle: b }\nreconnect: { max_attempts: 0 }\n";
    let reconnect = node(text).expect("the file is good").reconnect;
    assert_eq!(reconnect.max_attempts(), None);
    assert_eq!(reconnect.interval(), Duration::from_secs(10));
}

#[test]
fn plain_text_is_taken_as_it_stands() {
    let text = "certs: { dir: 007 }\nnodes: [ { id: 123 }, { id: on }, { id: true } ]\n";
    let config = edge(text).expect("ids may look like numbers and flags");
    let ids: Vec<_> = config.nodes.iter().map(|node| node.id.as_str()).collect();
    assert_eq!(ids, ["123", "on", "true"]);
    assert_eq!(config.certs.dir, Path::new("/etc/iop/007"));
}

#[test]
fn relative_paths_start_at_the_folder_of_the_file() {
    for (origin, dir) in
        [("edge.yaml", "pki"), ("conf/edge.yaml", "conf/pki"), ("/etc/edge.yaml", "/etc/pki")]
    {
        let config = EdgeConfig::parse("certs: { dir: pki }\n", Path::new(origin), &|_| None);
        assert_eq!(config.expect("the file is good").certs.dir, Path::new(dir));
    }
}
