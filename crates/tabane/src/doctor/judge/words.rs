//! Words that findings share.

pub(in crate::doctor) use crate::status::counted;

/// `a`, `a and b`, `a, b and c`.
pub fn list<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    let mut texts: Vec<String> = items.into_iter().map(|i| i.to_string()).collect();
    match (texts.pop(), texts.is_empty()) {
        (None, _) => String::new(),
        (Some(last), true) => last,
        (Some(last), false) => format!("{} and {last}", texts.join(", ")),
    }
}

/// `link 1`, `links 0 and 1`.
pub fn links(numbers: &[u8]) -> String {
    let word = if numbers.len() == 1 { "link" } else { "links" };
    format!("{word} {}", list(numbers))
}

/// Nodes in words: not more than eight.
pub fn nodes(names: &[String]) -> String {
    const SHOWN: usize = 8;
    match names.len() {
        0..=SHOWN => list(names),
        more => format!("{} and {} more", names[..SHOWN].join(", "), more - SHOWN),
    }
}

/// `12.5%`.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 9.95 {
        format!("{percent:.1}%")
    } else {
        format!("{percent:.0}%")
    }
}

/// `02:7a:62:00:00:01`.
pub fn mac(address: &[u8; 6]) -> String {
    tabane_cluster::mac_text(address)
}

/// A capital letter at the beginning, unless one of these nodes' names is there: names keep their case.
pub fn sentence(text: &str, names: &[String]) -> String {
    let word = text.split([' ', ',']).next();
    if names.iter().any(|name| Some(name.as_str()) == word) {
        return text.to_owned();
    }
    let mut letters = text.chars();
    let first = letters.next();
    first.map_or_else(String::new, |f| {
        f.to_uppercase().collect::<String>() + letters.as_str()
    })
}

/// How to open the cluster's port, for the common firewalls.
pub fn open_port(port: u16) -> String {
    format!(
        "let UDP port {port} in: `nft insert rule inet filter input udp dport {port} accept`, \
         or `ufw allow {port}/udp`, or `firewall-cmd --permanent --add-port={port}/udp && \
         firewall-cmd --reload`"
    )
}

#[cfg(test)]
mod tests {
    use super::sentence;

    #[test]
    fn a_name_at_the_beginning_keeps_its_case() {
        let named = ["n1".to_owned(), "n2".to_owned()];
        for (text, expected) in [
            ("n1 is there", "n1 is there"),
            ("n2, n1 and n3 are there", "n2, n1 and n3 are there"),
            ("n1x is there", "N1x is there"),
            ("nothing of n1 answers", "Nothing of n1 answers"),
            ("", ""),
        ] {
            assert_eq!(sentence(text, &named), expected);
        }
    }
}
