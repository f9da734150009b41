//! Base64 of vectors, as `encoding_format: base64` asks for: little-endian 32-bit floats. Encoding only.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base64 of a vector's bytes, padded.
pub(super) fn encode_vector(vector: &[f32]) -> String {
    let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
    encode(&bytes)
}

fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let [first, second, third] = [0, 1, 2].map(|at| u32::from(group.get(at).copied().unwrap_or(0)));
        let bits = first << 16 | second << 8 | third;
        for at in 0..4_usize {
            let sextet = (bits >> (18 - 6 * at)) & 0x3F;
            text.push(if at <= group.len() { char::from(ALPHABET[sextet as usize]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{encode, encode_vector};

    #[test]
    fn encodes_as_rfc_4648_does() {
        let cases = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (bytes, text) in cases {
            assert_eq!(encode(bytes.as_bytes()), text);
        }
        assert_eq!(encode(&[0xFB, 0xFF, 0xBF]), "+/+/");
        assert_eq!(encode_vector(&[1.0, -2.5]), "AACAPwAAIMA=");
    }
}
