//! Throughput over time, in characters of two by four dots (Unicode's Braille).

const DOTS_ACROSS: usize = 2;
const DOTS_DOWN: usize = 4;
/// First of the 256 characters.
const BRAILLE: u32 = 0x2800;
/// The bit of each dot, left and right column from the top (Unicode 15, chapter 21.1).
const BITS: [[u32; DOTS_DOWN]; DOTS_ACROSS] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];

/// How many values a graph of this width shows.
pub fn columns(width: usize) -> usize {
    width * DOTS_ACROSS
}

/// The area under `values`, from top to bottom; `full` fills the height. Values
/// beyond [`columns`] are left out, missing ones are blank.
pub fn area(values: &[f64], full: f64, width: usize, height: usize) -> Vec<String> {
    let dots = height * DOTS_DOWN;
    let level = |column: usize| {
        let share = values.get(column).map_or(0.0, |value| value / full);
        (share.clamp(0.0, 1.0) * dots as f64).round() as usize
    };
    let character = |row: usize, column: usize| {
        let mut bits = 0;
        for (across, column_bits) in BITS.iter().enumerate() {
            let level = level(column * DOTS_ACROSS + across);
            for (down, bit) in column_bits.iter().enumerate() {
                let from_bottom = dots - (row * DOTS_DOWN + down);
                if from_bottom <= level {
                    bits |= bit;
                }
            }
        }
        char::from_u32(BRAILLE + bits).unwrap_or(' ')
    };
    let line = |row: usize| (0..width).map(|column| character(row, column)).collect();
    (0..height).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_area_is_as_high_as_the_value() {
        assert_eq!(area(&[1.0, 1.0], 1.0, 1, 2), ["⣿", "⣿"]);
        assert_eq!(area(&[0.5, 0.5], 1.0, 1, 2), ["⠀", "⣿"]);
        assert_eq!(area(&[0.0, 1.0, 0.25], 1.0, 2, 1), ["⢸⡀"]);
        assert_eq!(area(&[9.0], 1.0, 1, 1), ["⡇"]);
    }
}
