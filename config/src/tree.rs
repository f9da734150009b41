//! A YAML file as a tree that knows where each part of it stands, read from the parser's events. It knows no setting,
//! and of YAML only what a configuration needs: no anchors, aliases, tags, directives or second documents, so that a
//! file cannot mean something else, or something larger, than what stands in it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use granit_parser::{ErrorKind, Event, Marker, Parser, ScalarStyle, ScanError, Span, StrInput};

use crate::issue::{Log, NoValue, Position, shown};

/// Bytes of a configuration file. A thousand nodes with four providers each take about 1 MiB.
pub const MAX_FILE_BYTES: usize = 4 * 1024 * 1024;

/// Collections inside each other. The deepest setting, a header of a provider, stands five deep.
pub const MAX_DEPTH: usize = 32;

/// Keys and values of one file: bounds the tree's memory to some 25 MB whatever the file's bytes are.
pub const MAX_NODES: usize = 262_144;

/// One value and where it begins.
#[derive(Debug)]
pub(crate) struct Node<'t> {
    pub(crate) position: Position,
    pub(crate) value: Value<'t>,
}

#[derive(Debug)]
pub(crate) enum Value<'t> {
    Scalar(Scalar<'t>),
    List(Vec<Node<'t>>),
    Mapping(Vec<Entry<'t>>),
    /// Reported already; whoever meets it stays silent.
    Refused,
}

#[derive(Debug)]
pub(crate) struct Scalar<'t> {
    pub(crate) text: Cow<'t, str>,
    /// Written without quotes and not as a block: only then can it be a number, a flag or nothing.
    pub(crate) plain: bool,
}

#[derive(Debug)]
pub(crate) struct Entry<'t> {
    pub(crate) key: Cow<'t, str>,
    pub(crate) position: Position,
    pub(crate) value: Node<'t>,
}

impl Scalar<'_> {
    pub(crate) fn is_null(&self) -> bool {
        self.plain && matches!(&*self.text, "" | "~" | "null" | "Null" | "NULL")
    }
}

impl Node<'_> {
    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar(scalar) if scalar.is_null())
    }
}

impl Entry<'_> {
    /// Where an issue of the value is shown: at the key when nothing stands behind it, for that is what one looks for.
    pub(crate) fn value_position(&self) -> Position {
        if self.value.is_null() { self.position } else { self.value.position }
    }
}

/// Reads `text`. Err when it cannot be read to its end; what was reported then is not all there may be.
pub(crate) fn read<'t>(text: &'t str, log: &Log) -> Result<Node<'t>, NoValue> {
    if text.len() > MAX_FILE_BYTES {
        let found = format!("a file of {} bytes", text.len());
        return Err(log.report(Position::START, "", found, format!("at most {MAX_FILE_BYTES} bytes")));
    }
    let options = granit_parser::options! {
        disallow_directives: true,
        emit_unresolved_aliases: true,
        emit_anchor_events: true,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    let parser = Parser::new_from_str_with_options(text, options);
    Reader { parser, log, steps: Vec::new(), nodes: 0 }.document()
}

enum Step<'t> {
    Key(Cow<'t, str>),
    Index(usize),
}

struct Reader<'t, 'l> {
    parser: Parser<'t, StrInput<'t>>,
    log: &'l Log,
    /// The way from the root to what is being read.
    steps: Vec<Step<'t>>,
    nodes: usize,
}

impl<'t> Reader<'t, '_> {
    fn document(mut self) -> Result<Node<'t>, NoValue> {
        let mut root = None;
        loop {
            let (event, span) = self.event()?;
            match event {
                Event::StreamEnd => break,
                Event::DocumentStart(..) if root.is_some() => {
                    self.report(span.start, "a second document", "one document in a file");
                    break;
                }
                Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd => {}
                event => root = Some(self.node(event, span)?),
            }
        }
        let nothing = Value::Scalar(Scalar { text: Cow::Borrowed(""), plain: true });
        Ok(root.unwrap_or(Node { position: Position::START, value: nothing }))
    }

    fn node(&mut self, event: Event<'t>, span: Span) -> Result<Node<'t>, NoValue> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            let expected = format!("at most {MAX_NODES} of them");
            return Err(self.report(span.start, "too many keys and values", expected));
        }
        self.refuse_alias_and_anchor(&event, span)?;
        let tagged = event.tag().map(|tag| shown(&tag.original()));
        if let Some(tag) = &tagged {
            self.report(
                span.tag_start().unwrap_or(span.start),
                format!("the tag `{tag}`"),
                "a value without a tag",
            );
        }
        let value = match event {
            Event::Scalar(..) if tagged.is_some() => Value::Refused,
            Event::Scalar(text, style, ..) => {
                Value::Scalar(Scalar { text, plain: style == ScalarStyle::Plain })
            }
            Event::SequenceStart(..) => Value::List(self.list()?),
            Event::MappingStart(..) => Value::Mapping(self.mapping()?),
            _ => Value::Refused,
        };
        Ok(Node { position: position(span.start), value })
    }

    fn list(&mut self) -> Result<Vec<Node<'t>>, NoValue> {
        let mut items = Vec::new();
        loop {
            let (event, span) = self.event()?;
            if event == Event::SequenceEnd {
                return Ok(items);
            }
            self.steps.push(Step::Index(items.len()));
            items.push(self.node(event, span)?);
            self.steps.pop();
        }
    }

    fn mapping(&mut self) -> Result<Vec<Entry<'t>>, NoValue> {
        let mut entries = Vec::new();
        let mut seen: BTreeMap<Cow<'t, str>, Position> = BTreeMap::new();
        loop {
            let (event, span) = self.event()?;
            if event == Event::MappingEnd {
                return Ok(entries);
            }
            let key_node = self.node(event, span)?;
            let position = key_node.position;
            let key = self.key(key_node);
            let step = key.clone().unwrap_or(Cow::Borrowed("?"));
            self.steps.push(Step::Key(step));
            let (event, span) = self.event()?;
            let value = self.node(event, span)?;
            if let Some(key) = key {
                if let Some(first) = seen.get(&key) {
                    let found = format!("the key a second time, first in line {}", first.line);
                    self.log.report(position, &self.path(), found, "each key once");
                } else {
                    seen.insert(key.clone(), position);
                    entries.push(Entry { key, position, value });
                }
            }
            self.steps.pop();
        }
    }

    fn key(&mut self, node: Node<'t>) -> Option<Cow<'t, str>> {
        let found = match node.value {
            Value::Scalar(scalar) if !scalar.is_null() => return Some(scalar.text),
            Value::Scalar(_) => "nothing as a key",
            Value::List(_) => "a list as a key",
            Value::Mapping(_) => "a mapping as a key",
            Value::Refused => return None,
        };
        self.log.report(node.position, &self.path(), found, "the name of a setting");
        None
    }

    fn refuse_alias_and_anchor(&mut self, event: &Event<'t>, span: Span) -> Result<(), NoValue> {
        let expected = "a value written out, without anchors and aliases";
        if event.is_alias() {
            self.report(span.start, "an alias (`*name`)", expected);
        } else if event.anchor_id().is_some() {
            // The parser promises the anchor's own event right behind its node's.
            let (_, anchor) = self.event()?;
            self.report(anchor.start, "an anchor (`&name`)", expected);
        }
        Ok(())
    }

    fn event(&mut self) -> Result<(Event<'t>, Span), NoValue> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(self.broken(&error)),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn broken(&self, error: &ScanError) -> NoValue {
        let (found, expected) = match error.kind() {
            ErrorKind::RecursionLimitExceeded => {
                ("deep nesting".to_owned(), format!("at most {MAX_DEPTH} levels of it"))
            }
            ErrorKind::DirectiveDisallowed => {
                ("a YAML directive (`%`)".to_owned(), "a file without directives".to_owned())
            }
            kind => (
                format!("broken YAML ({kind})"),
                "well-formed YAML; text with `[ ] { } # & * ! |` or `: ` needs quotes".to_owned(),
            ),
        };
        self.report(*error.marker(), found, expected)
    }

    fn report(&self, at: Marker, found: impl Into<String>, expected: impl Into<String>) -> NoValue {
        self.log.report(position(at), &self.path(), found, expected)
    }

    fn path(&self) -> String {
        self.steps.iter().fold(String::new(), |path, step| match step {
            Step::Key(key) => key_path(&path, key),
            Step::Index(index) => index_path(&path, *index),
        })
    }
}

fn position(marker: Marker) -> Position {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Position { line: number(marker.line()).max(1), column: number(marker.col()).saturating_add(1) }
}

/// `path` one key further down: `http` + `listen` is `http.listen`.
pub(crate) fn key_path(path: &str, key: &str) -> String {
    let simple = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let key = if simple && key.len() <= 60 { key.to_owned() } else { format!("\"{}\"", shown(key)) };
    if path.is_empty() { key } else { format!("{path}.{key}") }
}

/// `path` one item further down: `nodes` + 0 is `nodes[0]`.
pub(crate) fn index_path(path: &str, index: usize) -> String {
    format!("{path}[{index}]")
}
