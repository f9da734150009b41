//! Large and binary bodies of real clients: what the engine gets is what the client sent, but for the model's name.

use crate::clients::Client;
use crate::lab::{DEADLINE, MODEL, UPSTREAM, deploy, scripted, wait_for_no_lease};
use crate::shapes;
use iop_tests::deployment::Deployment;
use iop_tests::engine::{Engine, Received, Script};
use serde_json::json;

/// Letters of Base64 of an image: 20 MB as clients count them.
const IMAGE_LETTERS: usize = 20_000_000;
/// Bytes of a sound: some more than one piece of anything on its way.
const SOUND_BYTES: usize = 3_000_000;

/// Letters without a period that a lost or doubled piece could hide in.
fn image() -> String {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    noise().take(IMAGE_LETTERS).map(|byte| char::from(alphabet[usize::from(byte % 64)])).collect()
}

/// Bytes of all values, with what looks like the end of a part among them.
pub(crate) fn sound() -> Vec<u8> {
    let mut bytes: Vec<u8> = noise().take(SOUND_BYTES).collect();
    let marks: [&[u8]; 3] = [b"\r\n--", b"\r\n\r\n", b"name=\"model\"\r\n\r\nother\r\n"];
    for (mark, at) in marks.into_iter().zip([10_000, 65_530, 1_000_000]) {
        bytes[at..at + mark.len()].copy_from_slice(mark);
    }
    bytes
}

/// A linear congruence, its upper byte: the same in each run.
fn noise() -> impl Iterator<Item = u8> {
    let step = |state: &u64| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    std::iter::successors(Some(1_u64), step).map(|state| state.to_be_bytes()[0])
}

/// The only place of a text in a body.
pub(crate) fn place(body: &[u8], text: &[u8]) -> usize {
    let places: Vec<usize> =
        memchr(body, text[0]).filter(|&at| body[at..].starts_with(text)).take(2).collect();
    let [place] = places[..] else { panic!("{} at {places:?}", String::from_utf8_lossy(text)) };
    place
}

fn memchr(body: &[u8], byte: u8) -> impl Iterator<Item = usize> {
    body.iter().enumerate().filter(move |(_, found)| **found == byte).map(|(at, _)| at)
}

/// What the engine must get of what a client sent.
fn renamed(sent: &[u8]) -> Vec<u8> {
    let at = place(sent, MODEL.as_bytes());
    [&sent[..at], UPSTREAM.as_bytes(), &sent[at + MODEL.len()..]].concat()
}

/// Passes when this is the request's body, without showing megabytes of it.
fn assert_body(request: &Received, expected: &[u8]) {
    let differ = request.body.iter().zip(expected).position(|(found, due)| found != due);
    assert_eq!((request.body.len(), differ), (expected.len(), None), "length and first wrong byte");
    assert_eq!(request.header("content-length"), expected.len().to_string());
}

/// Writes a file into the deployment's folder.
pub(crate) fn write(iop: &Deployment, name: &str, bytes: impl AsRef<[u8]>) -> String {
    let path = iop.path(name);
    std::fs::write(&path, bytes).expect("the deployment's folder can be written to");
    path.display().to_string()
}

#[tokio::test]
async fn an_image_of_20_mb_reaches_the_engine_byte_for_byte() {
    let engine = Engine::start();
    let iop = deploy(scripted(&engine)).await;
    let image = image();
    let (file, sent) = (write(&iop, "image.txt", &image), write(&iop, "sent", ""));
    let seen = Client::OpenAi.check(iop.http, MODEL, &["vision"], &["--file", &file, "--sent", &sent]).await;
    seen.assert_text(&["vision"], &Script::answer().text());
    let sent = std::fs::read(sent).expect("the client wrote what it sent");
    assert!(sent.len() > IMAGE_LETTERS, "{} bytes", sent.len());
    assert_body(&engine.request(0), &renamed(&sent));

    let seen = Client::OpenAiNode.check(iop.http, MODEL, &["vision"], &["--file", &file]).await;
    seen.assert_text(&["vision"], &Script::answer().text());
    let body = engine.request(1).json();
    let url = body["messages"][0]["content"][1]["image_url"]["url"].as_str().expect("an image");
    assert!(url.strip_prefix("data:image/png;base64,") == Some(image.as_str()), "{} bytes", url.len());
    assert_eq!(body["model"], UPSTREAM);
    wait_for_no_lease(&iop).await;
    iop.shut_down().await;
}

#[tokio::test]
async fn a_form_with_a_sound_reaches_the_engine_byte_for_byte_wherever_the_model_stands_in_it() {
    let engine = Engine::start();
    engine.set_script(shapes::whole(&json!({"text": "said"})));
    let iop = deploy(scripted(&engine)).await;
    let sound = sound();
    let (file, sent) = (write(&iop, "sound.wav", &sound), write(&iop, "sent", ""));
    let options = ["--file", &file, "--sent", &sent];
    let seen = Client::OpenAi.check(iop.http, MODEL, &["transcription"], &options).await;
    assert_eq!(*seen.of("transcription"), json!("said"));
    let sent = std::fs::read(sent).expect("the client wrote what it sent");
    assert_body(&engine.request(0), &renamed(&sent));
    assert!(engine.request(0).header("content-type").starts_with("multipart/form-data; boundary="));

    let seen = Client::OpenAiNode.check(iop.http, MODEL, &["transcription"], &["--file", &file]).await;
    assert_eq!(*seen.of("transcription"), json!("said"));
    let request = engine.wait_answered(1, DEADLINE).await;
    assert_model_after_sound(&request, &sound);
    wait_for_no_lease(&iop).await;
    iop.shut_down().await;
}

/// Passes when the request's form has this sound, whole, and behind it the engine's name for the model.
pub(crate) fn assert_model_after_sound(request: &Received, sound: &[u8]) {
    let content_type = request.header("content-type");
    let boundary = content_type.split_once("boundary=").expect("a boundary").1;
    let model = format!("name=\"model\"\r\n\r\n{UPSTREAM}\r\n--{boundary}");
    let model = place(&request.body, model.as_bytes());
    let file = place(&request.body, b"name=\"file\"; ");
    assert!(file < model, "the file comes first: {file}, {model}");
    let content = &request.body[file..];
    let begin = content.windows(4).position(|four| four == b"\r\n\r\n").expect("the part's head ends") + 4;
    let end = begin + sound.len();
    assert!(content[begin..end] == *sound, "the sound is whole");
    assert!(content[end..].starts_with(format!("\r\n--{boundary}").as_bytes()), "and nothing more");
}
