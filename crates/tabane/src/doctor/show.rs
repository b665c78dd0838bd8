//! Findings for people.

use super::finding::{Diagnosis, Finding, Severity};
use super::judge::words;
use crate::status::{Colours, clean};

/// Columns of a line.
const WIDTH: usize = 80;

/// The diagnosis as text, ending in a newline.
pub fn text(diagnosis: &Diagnosis, colours: Colours) -> String {
    let mut out = String::new();
    let (notes, findings): (Vec<_>, Vec<_>) = diagnosis
        .findings
        .iter()
        .partition(|f| f.severity == Severity::Note);
    let node = diagnosis.node.as_deref().unwrap_or("this machine");
    let asked = match diagnosis.asked.as_slice() {
        [] => String::new(),
        all => format!("; asked {}", words::nodes(all)),
    };
    let begin = format!("{node}: {} ", headline(findings.len()));
    let looked_at = format!("({}{asked})", diagnosis.looked_at);
    wrapped(&mut out, &begin, node.chars().count() + 2, &looked_at);
    let of = |finding: &Finding| match finding.node.as_str() {
        "" => String::new(),
        other if Some(other) == diagnosis.node.as_deref() => String::new(),
        other => format!("At {}: ", clean(other)),
    };
    for (number, finding) in findings.iter().enumerate() {
        out.push('\n');
        let begin = format!("{}. {}", number + 1, of(finding));
        paragraph(&mut out, &begin, finding, colours);
    }
    if !notes.is_empty() {
        out.push_str("\nWorth knowing, though it costs nothing that was measured:\n");
        for finding in notes {
            paragraph(&mut out, &format!("-  {}", of(finding)), finding, colours);
        }
    }
    if findings.is_empty() {
        wrapped(
            &mut out,
            "\nLooked for: ",
            12,
            &format!("{}.", diagnosis.checked.join(", ")),
        );
    }
    for (number, unseen) in diagnosis.unseen.iter().enumerate() {
        let begin = if number == 0 {
            "\nNot looked at: "
        } else {
            "               "
        };
        wrapped(
            &mut out,
            begin,
            15,
            &format!("{} ({})", unseen.what, unseen.why),
        );
    }
    out
}

fn headline(findings: usize) -> String {
    match findings {
        0 => "nothing wrong found".to_owned(),
        1 => "1 finding".to_owned(),
        more => format!("{more} findings"),
    }
}

fn paragraph(out: &mut String, begin: &str, finding: &Finding, colours: Colours) {
    let (on, off) = match (colours, finding.severity) {
        (Colours::Off, _) => ("", ""),
        (Colours::On, Severity::Unreachable) => ("\x1b[1;31m", "\x1b[0m"),
        (Colours::On, Severity::Degraded | Severity::Slow) => ("\x1b[1;33m", "\x1b[0m"),
        (Colours::On, Severity::Note) => ("\x1b[1m", "\x1b[0m"),
    };
    out.push_str(on);
    wrapped(out, begin, 3, &format!("{}.", finding.what));
    out.push_str(off);
    for (number, line) in finding.evidence.iter().enumerate() {
        let label = if number == 0 {
            "   Seen:  "
        } else {
            "          "
        };
        wrapped(out, label, 10, line);
    }
    wrapped(out, "   Costs: ", 10, &finding.cost);
    for (number, line) in finding.mend.iter().enumerate() {
        let label = if number == 0 {
            "   Mend:  "
        } else {
            "          "
        };
        wrapped(out, label, 10, line);
    }
}

/// Words in lines of [`WIDTH`], the first after `begin`, others indented.
/// Commands in backquotes are not broken, so that they can be copied.
fn wrapped(out: &mut String, begin: &str, indent: usize, text: &str) {
    out.push_str(begin);
    let mut column = begin.trim_start_matches('\n').chars().count();
    let mut is_first = true;
    for piece in pieces(text) {
        let length = piece.chars().count();
        if !is_first && column + 1 + length > WIDTH {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        } else if !is_first {
            out.push(' ');
            column += 1;
        }
        out.push_str(&piece);
        column += length;
        is_first = false;
    }
    out.push('\n');
}

/// Words; text in backquotes counts as one.
fn pieces(text: &str) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    let mut open = false;
    for word in text.split_whitespace() {
        match pieces.last_mut() {
            Some(last) if open => {
                last.push(' ');
                last.push_str(word);
            }
            _ => pieces.push(word.to_owned()),
        }
        if word.matches('`').count() % 2 == 1 {
            open = !open;
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_stay_whole_and_lines_short() {
        let mut out = String::new();
        let text = "word ".repeat(15) + "`ip link set eth1 mtu 1500`, and more words to come";
        wrapped(&mut out, "   Mend:  ", 10, &text);
        assert!(out.lines().all(|l| l.chars().count() <= WIDTH), "{out}");
        assert!(out.contains("`ip link set eth1 mtu 1500`,"), "{out}");
        assert!(
            out.lines().skip(1).all(|l| l.starts_with("          ")),
            "{out}"
        );
    }
}
