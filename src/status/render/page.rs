//! Lines of at most 80 columns: a label at the left, its text behind it, wrapped at spaces.

use crate::status::text::Text;

/// Columns. What every terminal has, and what is still read easily in a file.
const WIDTH: usize = 80;

/// Where the text behind indented labels begins, at least and at most. Longer labels
/// push their text away, or have a line of their own.
const MIN_INDENT: usize = 16;
const MAX_INDENT: usize = 24;

/// A text that grows line by line.
#[derive(Debug, Default)]
pub(super) struct Page(String);

/// Where the text begins behind these labels, which stand two columns in.
pub(super) fn indent<'a>(labels: impl Iterator<Item = &'a Text>) -> usize {
    let longest = labels.map(|label| width(label.as_str())).max().unwrap_or_default();
    (longest + 4).clamp(MIN_INDENT, MAX_INDENT)
}

pub(super) fn width(text: &str) -> usize {
    text.chars().count()
}

impl Page {
    /// A label, and behind it, from column `indent` on, a text.
    pub(super) fn entry(&mut self, label: &str, indent: usize, text: &str) {
        let mut label = label;
        if width(label) + 2 > indent && indent > 0 {
            let line = format!("{label}  {text}");
            if width(&line) <= WIDTH {
                return self.line(&line);
            }
            let (name, lead) = (label.trim_start(), width(label) - width(label.trim_start()));
            for line in wrapped(name, WIDTH - lead) {
                self.line(&format!("{:lead$}{line}", ""));
            }
            label = "";
        }
        for line in wrapped(text, WIDTH - indent) {
            self.line(&format!("{label:indent$}{line}"));
            label = "";
        }
    }

    pub(super) fn blank(&mut self) {
        self.line("");
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }

    fn line(&mut self, line: &str) {
        self.0.push_str(line.trim_end());
        self.0.push('\n');
    }
}

/// `text` in lines of at most `limit` columns, at least one line. What fits stays as it is, with its columns.
fn wrapped(text: &str, limit: usize) -> Vec<String> {
    if width(text) <= limit {
        return vec![text.to_owned()];
    }
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && width(&line) + 1 + width(word) > limit {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        for character in word.chars() {
            if width(&line) == limit {
                lines.push(std::mem::take(&mut line));
            }
            line.push(character);
        }
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_at_spaces_and_words_that_are_too_long_anywhere() {
        for (text, lines) in [
            ("", &[""][..]),
            ("a  b   c", &["a  b   c"]),
            ("one two three", &["one two", "three"]),
            ("0123456789abcdef x", &["01234567", "89abcdef", "x"]),
            ("a 0123456789", &["a", "01234567", "89"]),
            ("ääääää öööööö", &["ääääää", "öööööö"]),
        ] {
            assert_eq!(wrapped(text, 8), lines, "{text:?}");
        }
    }

    #[test]
    fn text_stands_in_its_column_and_long_labels_above_it() {
        let mut page = Page::default();
        page.entry("a", 4, "x");
        page.entry("label", 4, "y");
        page.entry("label", 4, &"z".repeat(76));
        page.entry("b", 4, "");
        assert_eq!(page.into_text(), format!("a   x\nlabel  y\nlabel\n    {}\nb\n", "z".repeat(76)));
    }

    #[test]
    fn no_line_is_wider_than_80_columns() {
        let mut page = Page::default();
        page.entry("label", 20, &"word ".repeat(60));
        page.entry("", 20, &"x".repeat(300));
        page.entry(&format!("  {}", "y".repeat(150)), 20, "z");
        let text = page.into_text();
        assert!(text.lines().count() == 13 && text.lines().all(|line| width(line) <= WIDTH), "{text}");
    }

    #[test]
    fn the_column_follows_the_longest_label_within_bounds() {
        for (label, column) in [("", 16), ("label-of-14-le", 18), (&*"x".repeat(63), 24)] {
            assert_eq!(indent([Text::from(label)].iter()), column, "{label}");
        }
    }
}
