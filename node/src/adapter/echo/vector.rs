//! A vector for a text: the same for the same text, of length 1, and without any meaning.

/// Dimensions of a vector.
const DIMENSIONS: usize = 8;

/// The vector of `text`.
pub(crate) fn of(text: &str) -> Vec<f32> {
    let mut state = fnv1a(text.as_bytes());
    let mut vector: Vec<f32> = (0..DIMENSIONS)
        .map(|_| {
            state = splitmix64(state);
            // The upper bits as a number in [-1, 1).
            ((state >> 40) as f32 / (1 << 23) as f32) - 1.0
        })
        .collect();
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    if length > f32::EPSILON {
        vector.iter_mut().for_each(|value| *value /= length);
    } else {
        vector[0] = 1.0;
    }
    vector
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

fn splitmix64(state: u64) -> u64 {
    let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::{DIMENSIONS, of};

    #[test]
    fn vectors_have_length_1_and_follow_from_the_text_alone() {
        for text in ["", "a", "b", "ab", "a longer text, with ümlauts"] {
            let vector = of(text);
            assert_eq!(vector.len(), DIMENSIONS, "{text:?}");
            let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
            assert!((length - 1.0).abs() < 1e-5, "{text:?} has length {length}");
            assert_eq!(vector, of(text), "{text:?}");
        }
        assert_ne!(of("a"), of("b"));
    }
}
