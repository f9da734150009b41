//! How much text a body holds, and the estimate of its tokens made from that. No tokenizer: admission only needs to
//! tell long requests from normal ones.

/// Strings under a key of [`is_binary_key`] count up to this length, in bytes: a longer one is a file, not a text.
pub(super) const BINARY_BYTES: u64 = 1024;

/// How much of a string's beginning is looked at to tell a base64 data URL, in bytes: its media type is shorter.
pub(super) const HEAD_BYTES: usize = 128;

/// The text of a body: every string value at any depth, unescaped. Keys and numbers are not counted, nor are base64 data
/// URLs (`data:…;base64,…`), nor strings longer than 1024 bytes whose key is `url`, `data`, `file_data` or `b64_json`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TextCount {
    /// UTF-8 bytes of all characters that are not in `cjk`.
    pub bytes: u64,
    /// Chinese, Japanese and Korean characters, full-width forms included.
    pub cjk: u64,
}

impl TextCount {
    /// Counts one character.
    pub(super) fn add_char(&mut self, char: char) {
        if is_cjk(char) {
            self.cjk += 1;
        } else {
            self.bytes += char.len_utf8() as u64;
        }
    }

    /// Adds another count.
    pub(super) fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.cjk += other.cjk;
    }
}

/// Estimated prompt tokens: one for four bytes, and one for each CJK character, as common vocabularies average.
pub fn estimate_tokens(text: &TextCount) -> u32 {
    u32::try_from(text.bytes.div_ceil(4).saturating_add(text.cjk)).unwrap_or(u32::MAX)
}

/// Keys under which requests carry files as bare base64.
pub(super) fn is_binary_key(key: &[u8]) -> bool {
    matches!(key, b"url" | b"data" | b"file_data" | b"b64_json")
}

/// Whether a string that begins so is a base64 data URL.
pub(super) fn is_data_url(head: &[u8]) -> bool {
    const MARK: &[u8] = b";base64,";
    let scheme = head.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"data:"));
    scheme && head.windows(MARK.len()).any(|window| window == MARK)
}

/// Jamo, then radicals to Yi (kana and unified ideographs between them), Hangul, compatibility and full-width forms, and
/// the supplementary ideographic planes.
fn is_cjk(char: char) -> bool {
    matches!(u32::from(char),
        0x1100..=0x11FF | 0x2E80..=0xA4CF | 0xA960..=0xA97F | 0xAC00..=0xD7FF | 0xF900..=0xFAFF | 0xFF00..=0xFFEF
        | 0x20000..=0x3FFFF)
}
