//! The links of the matrix.

use std::time::Duration;

use tabane_lab::LinkSpec;

/// How many times slower the worse link is than the best.
pub const RATIOS: [u64; 4] = [1, 4, 10, 100];
const DELAYS_MS: [u64; 4] = [0, 2, 10, 20];
const LOSSES_PERCENT: [f64; 4] = [0.0, 1.0, 10.0, 50.0];

/// What is wrong with the worse link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Worse {
    /// How many times slower it is.
    pub ratio: u64,
    /// How much later every frame arrives, each way, milliseconds.
    pub delay_ms: u64,
    /// Share of frames it loses, each way, 0 to 100.
    pub loss_percent: f64,
}

impl Worse {
    fn link(self, best_mbit: u64) -> LinkSpec {
        LinkSpec {
            delay: Duration::from_millis(self.delay_ms),
            loss_percent: self.loss_percent,
            ..LinkSpec::mbit(best_mbit / self.ratio)
        }
    }
}

/// Links to be bundled: the first is the best, the last the worst.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    /// How many there are.
    pub links: usize,
    /// The last of them.
    pub worse: Worse,
}

impl Cell {
    /// All but the last are of `best_mbit` megabits a second.
    pub fn links(self, best_mbit: u64) -> Vec<LinkSpec> {
        let mut links = vec![LinkSpec::mbit(best_mbit); self.links - 1];
        links.push(self.worse.link(best_mbit));
        links
    }

    /// Links that lose nothing should add up; the sum is so many best ones.
    pub fn sum_of_best(self) -> Option<f64> {
        let is_sound = self.worse.loss_percent == 0.0;
        is_sound.then(|| (self.links - 1) as f64 + 1.0 / self.worse.ratio as f64)
    }

    /// For messages: `1:4, 10 ms more, 1% lost`.
    pub fn name(self) -> String {
        let Worse {
            ratio,
            delay_ms,
            loss_percent,
        } = self.worse;
        format!("1:{ratio}, {delay_ms} ms more, {loss_percent}% lost")
    }
}

/// Two links, one of them so many times slower, with every delay and loss.
pub fn two_links(ratio: u64) -> Vec<Cell> {
    let losses = |delay_ms| LOSSES_PERCENT.map(|loss_percent| (delay_ms, loss_percent));
    let worse = DELAYS_MS.into_iter().flat_map(losses);
    let cell = |(delay_ms, loss_percent)| Cell {
        links: 2,
        worse: Worse {
            ratio,
            delay_ms,
            loss_percent,
        },
    };
    worse.map(cell).collect()
}

/// Four links, one of them slow, late, lossy, or all of it.
pub fn four_links() -> Vec<Cell> {
    let kinds = [
        (10, 0, 0.0),
        (100, 0, 0.0),
        (1, 2, 0.0),
        (1, 20, 0.0),
        (1, 0, 1.0),
        (1, 0, 50.0),
        (10, 10, 10.0),
    ];
    let cell = |(ratio, delay_ms, loss_percent)| Cell {
        links: 4,
        worse: Worse {
            ratio,
            delay_ms,
            loss_percent,
        },
    };
    kinds.map(cell).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_matrix_has_every_cell_once() {
        let cells: Vec<_> = RATIOS.into_iter().flat_map(two_links).collect();
        assert_eq!(cells.len(), 64);
        for (index, cell) in cells.iter().enumerate() {
            assert!(!cells[..index].contains(cell), "{}", cell.name());
        }
    }

    #[test]
    fn sound_links_add_up_and_lossy_ones_need_not() {
        let cells = two_links(4);
        assert_eq!(cells[0].sum_of_best(), Some(1.25));
        assert_eq!(cells[1].sum_of_best(), None);
        assert_eq!(cells[0].links(1000)[1], LinkSpec::mbit(250));
        assert_eq!(four_links()[0].sum_of_best(), Some(3.1));
    }
}
