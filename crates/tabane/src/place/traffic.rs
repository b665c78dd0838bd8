//! Traffic between ranks: CSV.

/// Bytes between ranks, both directions together.
pub struct Traffic {
    /// For each rank the others that it talks with, in order, and how much, in bytes.
    of: Vec<Vec<(usize, u64)>>,
}

impl Traffic {
    /// Nobody is known to talk.
    pub fn none(ranks: usize) -> Traffic {
        Traffic {
            of: vec![Vec::new(); ranks],
        }
    }

    /// Reads lines `from,to,bytes`. The first may be these words; empty lines and lines with `#` in front are ignored. Pairs
    /// may repeat.
    ///
    /// # Errors
    /// The number of the first wrong line, and the error.
    pub fn read(text: &str, ranks: usize) -> Result<Traffic, (usize, String)> {
        let mut traffic = Traffic::none(ranks);
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            let is_title = index == 0 && line == "from,to,bytes";
            if line.is_empty() || line.starts_with('#') || is_title {
                continue;
            }
            let (from, to, bytes) = pair(line, ranks).map_err(|what| (index + 1, what))?;
            // A rank's traffic with itself never leaves its node.
            if from != to {
                traffic.of[from].push((to, bytes));
                traffic.of[to].push((from, bytes));
            }
        }
        for of in &mut traffic.of {
            of.sort_unstable();
            of.dedup_by(|(next, more), (rank, bytes)| {
                let is_same = next == rank;
                if is_same {
                    *bytes = bytes.saturating_add(*more);
                }
                is_same
            });
        }
        Ok(traffic)
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> usize {
        self.of.len()
    }

    /// The ranks that a rank exchanges data with, and the bytes.
    pub fn of(&self, rank: usize) -> &[(usize, u64)] {
        &self.of[rank]
    }

    /// Whether there is no traffic.
    pub fn is_empty(&self) -> bool {
        self.of.iter().all(Vec::is_empty)
    }
}

fn pair(line: &str, ranks: usize) -> Result<(usize, usize, u64), String> {
    let words: Vec<&str> = line.split(',').map(str::trim).collect();
    let [from, to, bytes] = words[..] else {
        return Err("a line is `from,to,bytes`, such as `0,1,65536`".to_owned());
    };
    let rank = |word: &str| match word.parse::<usize>() {
        Ok(rank) if rank < ranks => Ok(rank),
        Ok(rank) => Err(format!(
            "there is no rank {rank}; ranks are 0 to {}",
            ranks - 1
        )),
        Err(_) => Err(format!("`{word}` is no rank; it is a number from 0")),
    };
    let (from, to) = (rank(from)?, rank(to)?);
    let bytes = bytes
        .parse()
        .map_err(|_| format!("`{bytes}` is no number of bytes; it is a whole one from 0"))?;
    Ok((from, to, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_a_pair_are_one_sum() {
        let text = "from,to,bytes\n# halo\n\n 0 , 1 , 5\n1,0,7\n0,2,1\n2,2,99\n";
        let traffic = Traffic::read(text, 3).unwrap_or_else(|_| Traffic::none(0));
        assert_eq!(traffic.of(0), [(1, 12), (2, 1)]);
        assert_eq!(traffic.of(1), [(0, 12)]);
        assert_eq!(traffic.of(2), [(0, 1)]);
    }

    #[test]
    fn the_line_of_a_fault_is_told() {
        for (text, line, what) in [
            ("0,1", 1, "a line is `from,to,bytes`, such as `0,1,65536`"),
            (
                "0,1,1\nfrom,to,bytes",
                2,
                "`from` is no rank; it is a number from 0",
            ),
            (
                "\n0,1,-1",
                2,
                "`-1` is no number of bytes; it is a whole one from 0",
            ),
            ("0,3,1", 1, "there is no rank 3; ranks are 0 to 2"),
            ("-1,0,1", 1, "`-1` is no rank; it is a number from 0"),
        ] {
            let said = Traffic::read(text, 3).err();
            assert_eq!(said, Some((line, what.to_owned())), "{text}");
        }
    }

    #[test]
    fn more_than_can_be_counted_is_much() {
        let text = format!("0,1,{0}\n0,1,{0}\n", u64::MAX);
        let traffic = Traffic::read(&text, 2).unwrap_or_else(|_| Traffic::none(0));
        assert_eq!(traffic.of(0), [(1, u64::MAX)]);
    }
}
