//! Many texts written as one, as Slurm and ClusterShell write nodes: `n[000-999]`, `10.77.[0-3].[1-250]`, `rack[1,3,7-9]`,
//! `n[0-10/2]`.

use super::NODES_MAX;
use super::document::printable;

/// The error of such a text, and what would be right.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadRange {
    pub what: String,
    pub right: &'static str,
}

const RIGHT: &str = "write a range as [000-999], a list as [1,3,7-9], every second one as [0-10/2]";

/// Longest text outside of brackets.
const PLAIN_BYTES_MAX: usize = 255;

fn bad<T>(what: String, right: &'static str) -> Result<T, BadRange> {
    Err(BadRange { what, right })
}

/// All texts that this stands for, in order: the last of several brackets changes first. A text without brackets stands
/// for itself.
///
/// # Errors
/// The brackets contain no range, are empty, descend, have a number twice, or there are more than [`NODES_MAX`].
pub(super) fn expand(text: &str) -> Result<Vec<String>, BadRange> {
    if !text.contains(['[', ']']) {
        return Ok(vec![text.to_owned()]);
    }
    let mut all = vec![String::new()];
    let mut rest = text;
    let mut plain_bytes = 0;
    while let Some((before, inside, after)) = next_brackets(rest, text)? {
        plain_bytes += before.len();
        check_length(text, plain_bytes + after.find('[').unwrap_or(after.len()))?;
        let numbers = numbers(inside)?;
        if all.len() * numbers.len() > NODES_MAX {
            return bad(
                format!("\"{}\" stands for too many", printable(text)),
                "at most 16384 nodes are possible",
            );
        }
        all = all
            .iter()
            .flat_map(|begin| numbers.iter().map(move |n| format!("{begin}{before}{n}")))
            .collect();
        rest = after;
    }
    all.iter_mut().for_each(|one| one.push_str(rest));
    Ok(all)
}

/// An expanded text must not be longer than a plain one could be, or it would take the machine's memory.
fn check_length(text: &str, plain_bytes: usize) -> Result<(), BadRange> {
    match plain_bytes {
        ..=PLAIN_BYTES_MAX => Ok(()),
        _ => bad(
            format!("\"{}\" is too long", printable(text)),
            "no name and no address has 256 characters",
        ),
    }
}

/// The text before, in and behind the first brackets of `rest`, which is the end of `text`.
fn next_brackets<'a>(
    rest: &'a str,
    text: &str,
) -> Result<Option<(&'a str, &'a str, &'a str)>, BadRange> {
    let unpaired = || {
        bad(
            format!("a bracket of \"{}\" is alone", printable(text)),
            RIGHT,
        )
    };
    let Some((before, opened)) = rest.split_once('[') else {
        return if rest.contains(']') {
            unpaired()
        } else {
            Ok(None)
        };
    };
    match opened.split_once(']') {
        Some((inside, after)) if !before.contains(']') && !inside.contains('[') => {
            Ok(Some((before, inside, after)))
        }
        _ => unpaired(),
    }
}

/// The numbers that stand in brackets, with their zeros.
fn numbers(inside: &str) -> Result<Vec<String>, BadRange> {
    let mut all: Vec<String> = Vec::new();
    for part in inside.split(',').map(str::trim) {
        let more = part_numbers(part)?;
        if all.len() + more.len() > NODES_MAX {
            return bad(
                format!("[{}] stands for too many", printable(inside)),
                "at most 16384 nodes are possible",
            );
        }
        all.extend(more);
    }
    let mut sorted: Vec<&String> = all.iter().collect();
    sorted.sort_unstable();
    if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        let what = format!("[{}] has {} twice", printable(inside), twice[0]);
        return bad(what, "name each once");
    }
    Ok(all)
}

/// Those of one range or number.
fn part_numbers(part: &str) -> Result<Vec<String>, BadRange> {
    let shown = || printable(part);
    if part.is_empty() {
        return bad("a range is empty".to_owned(), RIGHT);
    }
    let (ends, step) = part.split_once('/').unwrap_or((part, "1"));
    let (first, last) = ends.split_once('-').unwrap_or((ends, ends));
    let is_number =
        |n: &str| !n.is_empty() && n.len() <= 9 && n.bytes().all(|b| b.is_ascii_digit());
    let is_lone_with_step = !ends.contains('-') && part.contains('/');
    if ![first, last, step].into_iter().all(is_number) || is_lone_with_step {
        return bad(format!("\"{}\" is no range of numbers", shown()), RIGHT);
    }
    let is_padded = [first, last]
        .iter()
        .any(|n| n.len() > 1 && n.starts_with('0'));
    if is_padded && first.len() != last.len() {
        let what = format!("the ends of \"{}\" are not written alike", shown());
        return bad(
            what,
            "give both as many digits: [008-012], or neither zeros: [8-12]",
        );
    }
    // At most nine digits.
    let number = |n: &str| n.parse::<u32>().unwrap_or_default();
    let (begin, end, step) = (number(first), number(last), number(step));
    if step == 0 {
        return bad(format!("\"{}\" never comes to its end", shown()), RIGHT);
    }
    if begin > end {
        return bad(
            format!("\"{}\" descends", shown()),
            "write the smaller number first",
        );
    }
    if (end - begin) / step >= NODES_MAX as u32 {
        return bad(
            format!("\"{}\" stands for too many", shown()),
            "at most 16384 nodes are possible",
        );
    }
    let width = first.len();
    let all = (begin..=end).step_by(step as usize);
    Ok(match is_padded {
        true => all.map(|n| format!("{n:0width$}")).collect(),
        false => all.map(|n| n.to_string()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> String {
        expand(text).expect("is a range").join(" ")
    }

    #[test]
    fn a_range_stands_for_what_slurm_and_clustershell_have_it_stand_for() {
        for (text, stands_for) in [
            ("n0", "n0"),
            ("", ""),
            ("n[8-11]", "n8 n9 n10 n11"),
            ("n[08-11]", "n08 n09 n10 n11"),
            ("n[000-002]x", "n000x n001x n002x"),
            ("n[0-10/3]", "n0 n3 n6 n9"),
            ("n[1,5, 7-8]", "n1 n5 n7 n8"),
            ("n[3]", "n3"),
            ("n[0-0]", "n0"),
            (
                "10.[0-1].7.[1-3]",
                "10.0.7.1 10.0.7.2 10.0.7.3 10.1.7.1 10.1.7.2 10.1.7.3",
            ),
        ] {
            assert_eq!(all(text), stands_for, "{text}");
        }
        assert_eq!(
            expand("n[00000-16383]").expect("is a range").len(),
            NODES_MAX
        );
    }

    #[test]
    fn a_text_of_any_length_takes_no_more_memory_than_names_do() {
        let long = "x".repeat(PLAIN_BYTES_MAX + 1);
        for text in [
            format!("{long}[0-9]"),
            format!("[0-9]{long}"),
            format!("n[0-9]{long}[0-9]"),
        ] {
            let what = expand(&text).expect_err("is too long").what;
            assert!(what.ends_with("is too long"), "{what}");
        }
        assert_eq!(expand(&long).expect("is no range"), [long]);
    }

    #[test]
    fn what_is_no_range_is_said() {
        for (text, what) in [
            ("n[1-", "a bracket of \"n[1-\" is alone"),
            ("n1-3]", "a bracket of \"n1-3]\" is alone"),
            ("n[1-3]]", "a bracket of \"n[1-3]]\" is alone"),
            ("n[[1-3]", "a bracket of \"n[[1-3]\" is alone"),
            ("n[]", "a range is empty"),
            ("n[1,]", "a range is empty"),
            ("n[a-c]", "\"a-c\" is no range of numbers"),
            ("n[1-2-3]", "\"1-2-3\" is no range of numbers"),
            ("n[-3]", "\"-3\" is no range of numbers"),
            ("n[4/2]", "\"4/2\" is no range of numbers"),
            ("n[1-9/]", "\"1-9/\" is no range of numbers"),
            ("n[0-9999999999]", "\"0-9999999999\" is no range of numbers"),
            ("n[1-9/0]", "\"1-9/0\" never comes to its end"),
            ("n[9-1]", "\"9-1\" descends"),
            ("n[08-111]", "the ends of \"08-111\" are not written alike"),
            ("n[1-3,2]", "[1-3,2] has 2 twice"),
            ("n[0-16384]", "\"0-16384\" stands for too many"),
            (
                "n[0-9999,10000-19999]",
                "[0-9999,10000-19999] stands for too many",
            ),
            (
                "n[0-999]x[0-999]",
                "\"n[0-999]x[0-999]\" stands for too many",
            ),
        ] {
            assert_eq!(expand(text).expect_err(text).what, what);
        }
    }
}
