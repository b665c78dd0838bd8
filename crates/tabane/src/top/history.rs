//! Recent traffic, as samples for a graph.

use std::collections::VecDeque;

/// Samples kept of each direction: three minutes at one a second.
pub const SAMPLES_MAX: usize = 180;

/// Rates of the last [`SAMPLES_MAX`] looks, in bits per second. Takes no memory
/// until there is something: most paths of a large cluster are idle.
#[derive(Debug, Clone, Default)]
pub struct Series {
    samples: VecDeque<f32>,
    /// How many there were in all.
    count: u64,
}

impl Series {
    /// The newest sample.
    pub fn push(&mut self, bits_per_second: f64) {
        self.count += 1;
        if self.samples.is_empty() && bits_per_second == 0.0 {
            return;
        }
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back(bits_per_second as f32);
    }

    /// The newest sample; 0 if there is none.
    pub fn last(&self) -> f64 {
        self.samples.back().copied().unwrap_or_default().into()
    }

    /// The largest one.
    pub fn max(&self) -> f64 {
        self.samples.iter().copied().fold(0.0, f32::max).into()
    }

    /// The samples as `width` columns, the newest to the right. A column is the
    /// mean of several if there are more samples than columns. Which of them
    /// share a column does not depend on the moment, so with a new sample only
    /// the last column changes, until all move by one.
    pub fn columns(&self, width: usize) -> Vec<f64> {
        if width == 0 {
            return Vec::new();
        }
        let per_column = SAMPLES_MAX.div_ceil(width) as u64;
        let first = self.count - self.samples.len() as u64;
        let newest = self.count.saturating_sub(1) / per_column;
        let mean = |column: u64| {
            let begin = (column * per_column).max(first);
            let end = ((column + 1) * per_column).min(self.count);
            let range = (begin - first) as usize..(end.max(begin) - first) as usize;
            let covered = range.len().max(1) as f64;
            let sum: f64 = self.samples.range(range).map(|s| f64::from(*s)).sum();
            sum / covered
        };
        let of_place = |place: usize| {
            let back = (width - 1 - place) as u64;
            newest.checked_sub(back).map_or(0.0, mean)
        };
        (0..width).map(of_place).collect()
    }
}

/// Both directions of a peer or path.
#[derive(Debug, Clone, Default)]
pub struct Traffic {
    /// Sent.
    pub out: Series,
    /// Received.
    pub back: Series,
}

impl Traffic {
    /// The newest rates.
    pub fn push(&mut self, out: f64, back: f64) {
        self.out.push(out);
        self.back.push(back);
    }

    /// The largest rate of either direction.
    pub fn max(&self) -> f64 {
        self.out.max().max(self.back.max())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(samples: impl IntoIterator<Item = u16>) -> Series {
        let mut series = Series::default();
        samples.into_iter().for_each(|s| series.push(s.into()));
        series
    }

    #[test]
    fn the_newest_is_to_the_right() {
        let wide = series([1, 2, 3]).columns(SAMPLES_MAX);
        assert_eq!(wide[SAMPLES_MAX - 4..], [0.0, 1.0, 2.0, 3.0]);
        assert_eq!(series([]).columns(3), [0.0; 3]);
        assert!(series([1]).columns(0).is_empty());
    }

    #[test]
    fn columns_are_means_and_do_not_flicker() {
        // 18 samples to a column.
        let one = series(1..=20).columns(10);
        assert_eq!(one[8..], [9.5, 19.5]);
        let two = series(1..=21).columns(10);
        assert_eq!(two[8..], [9.5, 20.0]);
        let full = series(std::iter::repeat_n(7, 1000)).columns(10);
        assert_eq!(full, [7.0; 10]);
    }

    #[test]
    fn idleness_takes_no_memory_and_the_rest_is_bounded() {
        assert_eq!(series([0; 500]).samples.capacity(), 0);
        let busy = series(0..1000);
        assert_eq!(busy.samples.len(), SAMPLES_MAX);
        assert_eq!((busy.last(), busy.max()), (999.0, 999.0));
        // Samples before the first traffic are zero.
        let late = series(std::iter::repeat_n(0, 500).chain([5]));
        assert_eq!(late.columns(SAMPLES_MAX)[SAMPLES_MAX - 2..], [0.0, 5.0]);
    }
}
