//! The list of revoked certificates, against a second reading of it.

use iop_certs::{PeerNode, Revocations, RevocationsError, Utc};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The bytes as a list: it says what its naive twin says, and the twin's own list says the same.
pub fn revoked(data: &[u8]) {
    let dir = Path::new("pki");
    match (Revocations::parse(dir, data), Naive::read(data)) {
        (Ok(list), Ok(naive)) => {
            naive.check(&list);
            let again = Revocations::parse(dir, naive.text().as_bytes()).expect("a good list");
            assert_eq!(again, list, "{}", naive.text());
        }
        (Err(error @ RevocationsError::Line { line, .. }), Err(bad)) if line == bad => {
            let shown = error.to_string();
            assert!(shown.len() < 2000 && !shown.contains(char::is_control), "{shown:?}");
        }
        (list, naive) => panic!("{list:?}, and by the twin {naive:?}"),
    }
}

/// What a list says.
#[derive(Debug, Default)]
struct Naive {
    nodes: BTreeMap<String, i64>,
    serials: BTreeSet<String>,
}

impl Naive {
    /// The error is the number of the first bad line.
    fn read(data: &[u8]) -> Result<Self, usize> {
        let mut naive = Self::default();
        for (index, line) in data.split(|byte| *byte == b'\n').enumerate() {
            naive.add(line).ok_or(index + 1)?;
        }
        Ok(naive)
    }

    fn add(&mut self, line: &[u8]) -> Option<()> {
        let line = std::str::from_utf8(line).ok()?;
        let entry = line.split_once('#').map_or(line, |(entry, _comment)| entry);
        let is_blank = |c| matches!(c, ' ' | '\t' | '\r' | '\x0c');
        let mut words = entry.split(is_blank).filter(|word| !word.is_empty());
        match words.next() {
            None => {}
            Some("node") => {
                let (node, until) = (words.next()?, words.next().filter(|word| *word == "until"));
                until?;
                let time = seconds(words.next()?)?;
                let is_good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
                if node.len() > 63 || !node.bytes().all(is_good) {
                    return None;
                }
                let until = self.nodes.entry(node.to_owned()).or_insert(time);
                *until = time.max(*until);
            }
            Some("serial") => {
                let digits = words.next()?.replace(':', "").to_ascii_lowercase();
                let digits = digits.trim_start_matches('0');
                if !(1..=40).contains(&digits.len()) || !digits.bytes().all(|digit| digit.is_ascii_hexdigit())
                {
                    return None;
                }
                let even = if digits.len() % 2 == 0 { "" } else { "0" };
                self.serials.insert(format!("{even}{digits}"));
            }
            Some(_) => return None,
        }
        words.next().is_none().then_some(())
    }

    fn text(&self) -> String {
        let node = |(node, until): (&String, &i64)| format!("node {node} until {}\n", Utc(*until));
        let serial = |serial: &String| format!("serial {serial}\n");
        self.nodes.iter().map(node).chain(self.serials.iter().map(serial)).collect()
    }

    fn check(&self, list: &Revocations) {
        assert_eq!((list.nodes(), list.serials()), (self.nodes.len(), self.serials.len()));
        // A number that no list has: it has too many digits.
        let free = "1".repeat(42);
        for (node, until) in &self.nodes {
            assert!(list.revokes(&peer(node, *until, &free)), "{node} until {until}");
            assert!(!list.revokes(&peer(node, until + 1, &free)), "{node} after {until}");
        }
        let free_node = (0..).map(|number| format!("free-{number}"));
        let free_node =
            free_node.into_iter().find(|node| !self.nodes.contains_key(node)).expect("one is free");
        assert!(!list.revokes(&peer(&free_node, 0, &free)));
        for serial in &self.serials {
            assert!(list.revokes(&peer(&free_node, 0, serial)), "{serial}");
        }
    }
}

/// A node with a certificate of that second of issue: its validity begins ten minutes before.
fn peer(node: &str, issued: i64, serial: &str) -> PeerNode {
    PeerNode {
        node_id: node.parse().expect("a good id"),
        not_before: issued - 600,
        not_after: i64::MAX,
        serial: serial.to_owned(),
    }
}

/// Seconds since 1970 of a time such as `2026-12-01T14:20:43Z`, of the years 0000 to 9999.
fn seconds(text: &str) -> Option<i64> {
    let form = "dddd-dd-ddTdd:dd:ddZ";
    let fits =
        |(found, wanted): (u8, u8)| if wanted == b'd' { found.is_ascii_digit() } else { found == wanted };
    if text.len() != form.len() || !text.bytes().zip(form.bytes()).all(fits) {
        return None;
    }
    let number = |place: std::ops::Range<usize>| text[place].parse::<i64>().ok();
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_of_year = |year| if leap(year) { 366 } else { 365 };
    let february = if leap(year) { 29 } else { 28 };
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let before = usize::try_from(month).ok()?.checked_sub(1)?;
    if !(1..=*months.get(before)?).contains(&day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    // From the year 0 to 1970.
    let epoch: i64 = (0..1970).map(days_of_year).sum();
    let days: i64 = (0..year).map(days_of_year).sum::<i64>() + months[..before].iter().sum::<i64>() + day - 1;
    Some(((days - epoch) * 24 + hour) * 3600 + minute * 60 + second)
}
