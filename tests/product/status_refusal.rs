//! `iop status` of what is no running edge: one line that says what is there instead and what to do, and a code.

use crate::lab::{DEADLINE, EXIT_LIMIT, Site, assert_failed, deploy, plan};
use iop_tests::engine::Engine;
use iop_tests::process::{Finished, Signal};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Instant;

/// A server of one connection: reads a request's head, answers with these bytes, ends.
struct Server {
    address: SocketAddr,
    thread: std::thread::JoinHandle<String>,
}

impl Server {
    fn start(answer: impl FnOnce(&mut TcpStream) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).expect("a request's head");
                head.push(byte[0]);
            }
            answer(&mut stream);
            String::from_utf8(head).expect("a head is text")
        });
        Self { address, thread }
    }

    fn says(answer: &'static str) -> Self {
        Self::start(move |stream| stream.write_all(answer.as_bytes()).expect("the client reads"))
    }

    /// The head of the request.
    fn head(self) -> String {
        self.thread.join().expect("the server does not panic").to_lowercase()
    }
}

async fn status(options: &[&str]) -> Finished {
    Site::empty().run(&[&["status"], options].concat()).await
}

/// Passes when there is exactly one line on standard error, with these words, and exit code 1.
fn assert_says_in_a_line(finished: &Finished, words: &[&str]) {
    assert_failed(finished, 1, words);
    assert_eq!(finished.stderr.len(), 1, "{finished:#?}");
    assert!(finished.stderr[0].chars().all(|character| !character.is_control()), "{finished:#?}");
}

#[tokio::test]
async fn whatever_answers_but_is_no_edge_is_told_in_one_line() {
    for (answer, words) in [
        (
            "HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}",
            &["no admin listener", "404 Not Found"][..],
        ),
        (
            "HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\n\r\n",
            &["no admin listener", "302 Found"],
        ),
        ("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n", &["503 Service Unavailable"]),
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", &["no snapshot", "missing field"]),
        ("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>", &["no snapshot", "expected value"]),
        ("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n7", &["no snapshot"]),
        ("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n\"\u{1b}[2J\u{9b}m\"", &["no snapshot"]),
        ("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"queue\":", &["broke off its answer"]),
        ("", &["broke off its answer"]),
        ("SSH-2.0-OpenSSH_9.9\r\n", &["no admin listener", "plain HTTP"]),
        ("\u{15}\u{3}\u{1}\u{0}\u{2}\u{2}\u{16}", &["no admin listener", "plain HTTP"]),
    ] {
        let server = Server::says(answer);
        let finished = status(&["--admin", &server.address.to_string()]).await;
        assert_says_in_a_line(&finished, &[&[server.address.to_string().as_str()], words].concat());
        assert!(server.head().starts_with("get /admin/v1/snapshot http/1.1\r\n"));
    }
}

#[tokio::test]
async fn a_key_travels_as_a_bearer_and_only_when_asked_for() {
    let (name, key) = ("STATUS_TEST_KEY", "operators-key-1");
    for (options, sent) in [(&["--key-env", name][..], true), (&[], false)] {
        let server = Server::says("HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n");
        let address = server.address.to_string();
        let site = Site::empty();
        let program = site.program(&[&["status", "--admin", &address], options].concat()).env(name, key);
        let finished = program.run(DEADLINE).await;
        assert_says_in_a_line(&finished, if sent { &["refuses the key"] } else { &["asks for a key"] });
        let head = server.head();
        assert_eq!(head.contains(&format!("\r\nauthorization: bearer {key}\r\n")), sent, "{head}");
        assert_eq!(head.contains("authorization"), sent, "{head}");
        assert!(head.contains(&format!("\r\nhost: {address}\r\n")), "{head}");
    }
}

#[tokio::test]
async fn an_address_where_nothing_listens_is_told_with_what_to_look_at() {
    // Bound and closed: nobody listens there for now.
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("bound");
    let finished = status(&["--admin", &format!("http://{free}")]).await;
    let words = ["nothing listens at", &free.to_string(), "is the edge running", "--admin"];
    assert_says_in_a_line(&finished, &words);
}

#[tokio::test]
async fn the_listener_for_clients_is_not_taken_for_the_one_for_operators() {
    let engine = Engine::start();
    let iop = deploy(plan(&engine, 1)).await;
    let finished = iop.run(&["status", "--admin", &iop.http.to_string()]).await;
    assert_says_in_a_line(&finished, &[&iop.http.to_string(), "no admin listener", "404"]);
    iop.shut_down().await;
}

#[tokio::test]
async fn silence_is_waited_for_five_seconds_and_an_endless_answer_is_cut() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = silent.local_addr().expect("bound").to_string();
    let begun = Instant::now();
    let finished = status(&["--admin", &address]).await;
    assert_says_in_a_line(&finished, &[&address, "did not answer within 5 s"]);
    assert!(begun.elapsed() < DEADLINE, "{:?}", begun.elapsed());

    let endless = Server::start(|stream| {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n";
        let mut written = stream.write_all(head.as_bytes());
        while written.is_ok() {
            written = stream.write_all(&[b' '; 1 << 16]);
        }
    });
    let finished = status(&["--admin", &endless.address.to_string()]).await;
    assert_says_in_a_line(&finished, &["no admin listener", "longer than 16 MiB"]);
    endless.head();
}

#[tokio::test]
async fn a_watch_that_waits_for_an_answer_ends_by_ctrl_c_at_once() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = silent.local_addr().expect("bound").to_string();
    let site = Site::empty();
    let mut watch = site.start(&["status", "--watch", "--admin", &address]);
    let (mut stream, _) = silent.accept().expect("it connects");
    stream.read_exact(&mut [0]).expect("it asks");
    let begun = Instant::now();
    watch.signal(Signal::INT);
    assert_eq!(watch.wait_for_exit(DEADLINE).await.code(), Some(0), "{:#?}", watch.stderr());
    assert!(begun.elapsed() < EXIT_LIMIT, "{:?}", begun.elapsed());
    assert_eq!(watch.stdout(), Vec::<String>::new());
}

#[tokio::test]
async fn wrong_arguments_are_told_with_code_2() {
    for (options, words) in [
        (&["--admin", "https://127.0.0.1:9090"][..], "plain HTTP"),
        (&["--admin", "127.0.0.1"], "HOST:PORT"),
        (&["--admin", "http://127.0.0.1:9090/v1/models"], "no path"),
        (&["--key-env", "STATUS_TEST_NO_SUCH_KEY"], "`STATUS_TEST_NO_SUCH_KEY` is not set"),
        (&["--key-env", "1=x"], "the name of an environment variable"),
        (&["--once"], "--once"),
    ] {
        assert_failed(&status(options).await, 2, &[words]);
    }
    for value in ["", "two words"] {
        let site = Site::empty();
        let program = site.program(&["status", "--key-env", "STATUS_TEST_KEY"]);
        let finished = program.env("STATUS_TEST_KEY", value).run(DEADLINE).await;
        assert_failed(&finished, 2, &["`STATUS_TEST_KEY`", "does not hold a key"]);
    }
}
