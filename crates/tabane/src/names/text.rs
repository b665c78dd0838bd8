//! The text of `/etc/hosts`, hosts(5). Pure.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use super::Names;

/// A line of somebody else's that gives a name another address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Foreign {
    /// Its number, from 1.
    pub line: usize,
    /// The name.
    pub name: String,
    /// The address that it has there.
    pub address: IpAddr,
    /// The node's.
    pub ours: IpAddr,
}

/// Ends the line that begins the names if the line above it, the last one, had no newline: it gets that back.
const CUT: &str = "begin, behind a line without newline";

fn begin(mark: &str) -> String {
    format!("# tabane {mark} begin")
}

fn end(mark: &str) -> String {
    format!("# tabane {mark} end")
}

/// The text with these names in place of those that are there under the same mark, else behind all else; and which lines of others
/// contradict. What they name is left to them.
pub fn with_names(text: &[u8], names: &Names) -> (Vec<u8>, Vec<Foreign>) {
    let Rest { mut before, behind } = without_marked(text, &names.mark);
    if names.entries.is_empty() {
        before.extend(behind);
        return (before, Vec::new());
    }
    let is_cut = behind.is_empty() && before.last().is_some_and(|last| *last != b'\n');
    let mut block = begin(&names.mark);
    if is_cut {
        before.push(b'\n');
        block = format!("# tabane {} {CUT}", names.mark);
    }
    let theirs = [foreign(&before, names), foreign(&behind, names)];
    let is_theirs = |name: &str| {
        let mut all = theirs.iter().flatten();
        all.any(|it| it.name.eq_ignore_ascii_case(name))
    };
    block.push('\n');
    for entry in &names.entries {
        let ours = entry.names.iter().filter(|name| !is_theirs(name));
        let ours: Vec<&str> = ours.map(String::as_str).collect();
        if !ours.is_empty() {
            block += &format!("{}\t{}\n", entry.address, ours.join(" "));
        }
    }
    block += &end(&names.mark);
    block.push('\n');
    let above = lines(&before).count() + block.lines().count();
    let [mut found, mut found_behind] = theirs;
    found_behind.iter_mut().for_each(|it| it.line += above);
    found.extend(found_behind);
    // Many a system gives a machine's own name an address of loopback, which is right as well.
    found.retain(|it| !(it.address.is_loopback() && it.name.eq_ignore_ascii_case(&names.own)));
    before.extend(block.into_bytes());
    before.extend(behind);
    (before, found)
}

/// What the text lacks of the names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lack {
    /// Names that no line has, each with the address that it is to have.
    pub missing: Vec<(String, IpAddr)>,
    /// Lines that contradict.
    pub foreign: Vec<Foreign>,
}

/// What `text` lacks of the names that should be in it.
pub fn lack(text: &[u8], names: &Names) -> Lack {
    let (right, foreign) = with_names(text, names);
    let is: HashSet<(IpAddr, String)> = lines(text).flat_map(named).collect();
    let should = lines(&right).flat_map(named);
    let missing = should.filter(|it| !is.contains(it));
    Lack {
        missing: missing.map(|(address, name)| (name, address)).collect(),
        foreign,
    }
}

/// Whether anything is under this mark.
pub fn has_mark(text: &[u8], mark: &str) -> bool {
    lines(text).any(|line| is_begin(line, mark) || is(line, &end(mark)))
}

/// All lines, each with its newline.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|byte| *byte == b'\n')
}

fn is(line: &[u8], words: &str) -> bool {
    line.trim_ascii_end() == words.as_bytes()
}

fn is_begin(line: &[u8], mark: &str) -> bool {
    is(line, &begin(mark)) || is_cut(line, mark)
}

fn is_cut(line: &[u8], mark: &str) -> bool {
    is(line, &format!("# tabane {mark} {CUT}"))
}

/// Where the first pair of lines of this mark is: nothing of another daemon's is between.
fn marked(all: &[&[u8]], mark: &str) -> Option<(usize, usize)> {
    let mut first = None;
    for (index, line) in all.iter().enumerate() {
        if is_begin(line, mark) {
            first = Some(index);
        } else if is(line, &end(mark)) {
            if let Some(first) = first {
                return Some((first, index));
            }
        } else if line.starts_with(b"# tabane ") {
            first = None;
        }
    }
    None
}

/// What is not this daemon's.
struct Rest {
    before: Vec<u8>,
    behind: Vec<u8>,
}

/// A line of the mark that lacks its other one goes alone: nobody knows whose the lines next to it are.
fn without_marked(text: &[u8], mark: &str) -> Rest {
    let mut rest: Vec<&[u8]> = lines(text).collect();
    let (mut place, mut was_cut) = (None, false);
    while let Some((first, last)) = marked(&rest, mark) {
        was_cut = is_cut(rest[first], mark) && last + 1 == rest.len();
        rest.drain(first..=last);
        place.get_or_insert(first);
    }
    let is_lone = |line: &[u8]| is_begin(line, mark) || is(line, &end(mark));
    let place = place.unwrap_or(rest.len());
    let (before, behind) = rest.split_at(place);
    let whole = |part: &[&[u8]]| {
        let kept = part.iter().filter(|line| !is_lone(line));
        kept.copied().collect::<Vec<_>>().concat()
    };
    let (mut before, behind) = (whole(before), whole(behind));
    if was_cut && behind.is_empty() && before.last() == Some(&b'\n') {
        before.pop();
    }
    Rest { before, behind }
}

/// What a line names, with the address.
fn named(line: &[u8]) -> Vec<(IpAddr, String)> {
    let text = String::from_utf8_lossy(line);
    let mut words = text
        .split('#')
        .next()
        .unwrap_or_default()
        .split_ascii_whitespace();
    let Some(address) = words.next().and_then(|word| word.parse().ok()) else {
        return Vec::new();
    };
    words.map(|name| (address, name.to_owned())).collect()
}

/// The lines of others that give our names other addresses.
fn foreign(text: &[u8], names: &Names) -> Vec<Foreign> {
    let all = names.entries.iter();
    let ours: HashMap<String, (IpAddr, &String)> = all
        .flat_map(|entry| {
            let names = entry.names.iter();
            names.map(|name| (name.to_ascii_lowercase(), (entry.address, name)))
        })
        .collect();
    let mut found = Vec::new();
    for (index, line) in lines(text).enumerate() {
        for (address, name) in named(line) {
            match ours.get(&name.to_ascii_lowercase()) {
                Some((ours, name)) if address != *ours => found.push(Foreign {
                    line: index + 1,
                    name: (*name).clone(),
                    address,
                    ours: *ours,
                }),
                _ => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::Entry;
    use super::*;

    fn names(mark: &str, entries: &[(&str, &str)]) -> Names {
        let entry = |(address, names): &(&str, &str)| Entry {
            address: address.parse().unwrap(),
            names: names.split(' ').map(str::to_owned).collect(),
        };
        Names {
            mark: mark.to_owned(),
            own: "n0".to_owned(),
            entries: entries.iter().map(entry).collect(),
        }
    }

    fn two() -> Names {
        names(
            "n0 /c",
            &[("10.99.0.1", "n0 n0.tabane"), ("fd99::2", "N1 N1.tabane")],
        )
    }

    fn none() -> Names {
        names("n0 /c", &[])
    }

    /// With the names, and without them again: that must be the text.
    fn there_and_back(text: &[u8]) -> Vec<u8> {
        let (written, _) = with_names(text, &two());
        assert_eq!(
            with_names(&written, &two()).0,
            written,
            "nothing is doubled"
        );
        assert_eq!(with_names(&written, &none()).0, text);
        written
    }

    #[test]
    fn names_come_and_go_and_nothing_else_changes() {
        let written = there_and_back(b"127.0.0.1 localhost\n");
        assert_eq!(
            String::from_utf8(written).unwrap(),
            "127.0.0.1 localhost\n# tabane n0 /c begin\n10.99.0.1\tn0 n0.tabane\n\
             fd99::2\tN1 N1.tabane\n# tabane n0 /c end\n"
        );
        for text in [
            &b""[..],
            b"\n",
            b"no newline",
            b"\xff\xfe\0\r\n\r\n  ",
            b"#\n\n\n",
        ] {
            there_and_back(text);
        }
    }

    #[test]
    fn what_was_left_is_replaced_where_it_is() {
        let (old, _) = with_names(b"a\n", &names("n0 /c", &[("10.99.0.7", "n7")]));
        let text = [&old[..], b"behind\n"].concat();
        let (written, _) = with_names(&text, &two());
        let shown = String::from_utf8(written).unwrap();
        assert!(
            shown.starts_with("a\n# tabane n0 /c begin\n10.99.0.1"),
            "{shown}"
        );
        assert!(shown.ends_with("# tabane n0 /c end\nbehind\n"), "{shown}");
        assert!(!shown.contains("n7"), "{shown}");
        assert_eq!(with_names(shown.as_bytes(), &none()).0, b"a\nbehind\n");
        // Twice, by whatever accident.
        let twice = [&old[..], b"between\n", &old[2..]].concat();
        assert_eq!(with_names(&twice, &none()).0, b"a\nbetween\n");
        // Who adds a line to one that had no newline has one more.
        let (cut, _) = with_names(b"a", &two());
        let more = [&cut[..], b"b\n"].concat();
        assert_eq!(with_names(&more, &none()).0, b"a\nb\n");
    }

    #[test]
    fn daemons_leave_each_others_names_alone() {
        let (one, _) = with_names(b"a\n", &two());
        let others = names("n0 /d", &[("10.98.0.1", "m0")]);
        let (both, _) = with_names(&one, &others);
        assert_eq!(with_names(&both, &names("n0 /d", &[])).0, one);
        let (other, _) = with_names(b"a\n", &others);
        assert_eq!(with_names(&both, &none()).0, other);
        assert!(has_mark(&both, "n0 /d") && !has_mark(&both, "n0 /e"));
    }

    #[test]
    fn a_line_without_its_other_one_takes_nothing_along() {
        let text = b"a\n# tabane n0 /c begin\n10.0.0.5 mine\n";
        assert_eq!(with_names(text, &none()).0, b"a\n10.0.0.5 mine\n");
        let text = b"# tabane n0 /c end\nmine\n# tabane n0 /c begin\n";
        assert_eq!(with_names(text, &none()).0, b"mine\n");
        let text = b"# tabane n0 /c begin\n# tabane n0 /d begin\nx\n# tabane n0 /c end\n# tabane n0 /d end\n";
        let shown = with_names(text, &none()).0;
        assert_eq!(shown, b"# tabane n0 /d begin\nx\n# tabane n0 /d end\n");
    }

    #[test]
    fn names_of_others_are_told_and_left_to_them() {
        let text = b"127.0.1.1 n0\n10.1.1.1 x n1 # n1.tabane\n10.99.0.1 n0.tabane\n";
        let (written, foreign) = with_names(text, &two());
        let first = Foreign {
            line: 2,
            name: "N1".to_owned(),
            address: "10.1.1.1".parse().unwrap(),
            ours: "fd99::2".parse().unwrap(),
        };
        assert_eq!(foreign, std::slice::from_ref(&first));
        let shown = String::from_utf8(written.clone()).unwrap();
        let block =
            "# tabane n0 /c begin\n10.99.0.1\tn0.tabane\nfd99::2\tN1.tabane\n# tabane n0 /c end\n";
        assert!(shown.ends_with(block), "{shown}");
        // Behind the names as well, by the line that it has then.
        let (_, foreign) = with_names(&[&written[..], b"\n10.1.1.2 n1\n"].concat(), &two());
        let second = Foreign {
            line: 9,
            address: "10.1.1.2".parse().unwrap(),
            ..first.clone()
        };
        assert_eq!(foreign, [first, second]);
    }

    #[test]
    fn what_is_lacking_is_found() {
        let (whole, _) = with_names(b"10.1.1.1 n0\n", &two());
        let text = String::from_utf8(whole.clone()).unwrap();
        let found = lack(text.replace("fd99::2", "fd99::3").as_bytes(), &two());
        let n1 = "fd99::2".parse().unwrap();
        let missing = [("N1".to_owned(), n1), ("N1.tabane".to_owned(), n1)];
        assert_eq!(found.missing, missing);
        assert_eq!((found.foreign.len(), found.foreign[0].line), (1, 1));
        assert_eq!(lack(&whole, &two()).missing, []);
        assert_eq!(lack(b"", &two()).missing.len(), 4);
    }
}
