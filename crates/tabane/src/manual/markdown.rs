//! A document as a manual page: the little Markdown that docs/ uses, in roff.

use std::fmt::Write;

/// The page `name` of `section`, with `what` it is in a line.
pub(super) fn page(name: &str, section: &str, what: &str, markdown: &str) -> String {
    let mut page = super::page::title(name, section);
    let (name, what) = (escaped(name), escaped(what));
    let _ = write!(page, ".SH NAME\n{name} \\- {what}\n.SH DESCRIPTION\n");
    let body = markdown.lines().skip_while(|line| line.starts_with("# "));
    let mut lines = body.peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("```") {
            page += ".PP\n.RS 4\n.nf\n";
            for code in lines.by_ref().take_while(|line| !line.starts_with("```")) {
                let _ = writeln!(page, "{}", guarded(&escaped(code)));
            }
            page += ".fi\n.RE\n";
        } else if let Some(title) = line.strip_prefix("## ") {
            let _ = writeln!(page, ".SH \"{}\"", escaped(&title.to_uppercase()));
        } else if let Some(title) = line.strip_prefix("### ") {
            let _ = writeln!(page, ".SS \"{}\"", escaped(&title.replace('`', "")));
        } else if let Some(row) = line.strip_prefix('|') {
            // Headings of tables explain nothing here.
            if lines.next_if(|next| next.starts_with("|---")).is_none() {
                page += &table_row(row);
            }
        } else if let Some(item) = line.strip_prefix("- ") {
            let _ = writeln!(page, ".IP \\(bu 2\n{}", guarded(&inline(item)));
        } else if line.is_empty() {
            page += ".PP\n";
        } else if !line.starts_with("<!--") {
            let _ = writeln!(page, "{}", guarded(&inline(line.trim_start())));
        }
    }
    page
}

/// The first cell is the term, the last one explains it; cells in between go into
/// brackets.
fn table_row(row: &str) -> String {
    let cells = row.trim_end_matches('|').split('|').map(str::trim);
    let cells: Vec<_> = cells.filter(|cell| !cell.is_empty()).collect();
    let [term, between @ .., text] = &cells[..] else {
        return String::new();
    };
    let mut line = inline(term);
    for cell in between {
        let _ = write!(line, " ({})", inline(cell));
    }
    format!(".TP\n{}\n{}\n", guarded(&line), guarded(&inline(text)))
}

/// `code` and **strong** are bold; of a link its words are left.
fn inline(text: &str) -> String {
    let mut out = String::new();
    let mut strong = false;
    for (index, part) in text.split('`').enumerate() {
        if index % 2 == 1 {
            let _ = write!(out, "\\fB{}\\fR", escaped(part));
            continue;
        }
        for (index, part) in without_links(part).split("**").enumerate() {
            if index > 0 {
                strong = !strong;
                out += if strong { "\\fB" } else { "\\fR" };
            }
            out += &escaped(part);
        }
    }
    out
}

/// `[words](target)` becomes `words`.
fn without_links(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        let whole = link.split_once("](").and_then(|(words, after)| {
            let (_, after) = after.split_once(')')?;
            Some((words, after))
        });
        let Some((words, after)) = whole else {
            break;
        };
        out += before;
        out += words;
        rest = after;
    }
    out + rest
}

/// As roff prints it literally.
pub(super) fn escaped(text: &str) -> String {
    text.replace('\\', "\\e")
        .replace('-', "\\-")
        .replace('"', "\\(dq")
}

/// Escapes a line of text that would look like a request.
fn guarded(line: &str) -> String {
    match line.as_bytes().first() {
        Some(b'.' | b'\'') => format!("\\&{line}"),
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_documents_use_is_carried_over() {
        let markdown = "# A title\n\nWords, `code` and **strong `x`**,\n[a link](there.md).\n\
                        ## A part\n### of `it`\n| key | | |\n|---|---|---|\n\
                        | `a` | text | Means *a*. |\n| `b` | | More. |\n- one\n  more\n```text\n.dot -x \\y\n```\n";
        let page = page("a-file", "5", "what it is", markdown);
        let (head, body) = page.split_once(".SH DESCRIPTION\n").unwrap();
        assert!(head.starts_with(".TH A\\-FILE 5 \"\" \"tabane "), "{head}");
        assert!(
            head.ends_with(".SH NAME\na\\-file \\- what it is\n"),
            "{head}"
        );
        assert_eq!(
            body,
            ".PP\nWords, \\fBcode\\fR and \\fBstrong \\fBx\\fR\\fR,\na link.\n\
             .SH \"A PART\"\n.SS \"of it\"\n\
             .TP\n\\fBa\\fR (text)\nMeans *a*.\n.TP\n\\fBb\\fR\nMore.\n.IP \\(bu 2\none\nmore\n\
             .PP\n.RS 4\n.nf\n\\&.dot \\-x \\ey\n.fi\n.RE\n"
        );
    }
}
