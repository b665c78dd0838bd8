use super::pattern::{fill, first_wrong};
use super::report::quantile;

#[test]
fn a_wrong_byte_is_found_wherever_the_piece_begins() {
    let mut block = vec![0; 8000];
    fill(&mut block, 0);
    for from in 0..20 {
        for to in [from, from + 3, 4000, 7999, 8000] {
            assert_eq!(first_wrong(&block[from..to], from as u64), None);
        }
    }
    block[4321] ^= 1;
    assert_eq!(first_wrong(&block[3..], 3), Some(4321));
    assert_eq!(first_wrong(&block[4322..], 4322), None);
    assert_eq!(first_wrong(&block[8..16], 16), Some(16));
}

#[test]
fn content_goes_on_where_it_stopped() {
    let mut block = vec![0; 64];
    fill(&mut block, 1024);
    assert_eq!(first_wrong(&block, 1024), None);
    assert_eq!(first_wrong(&block, 1032), Some(1032));
}

#[test]
fn quantiles_of_few_and_none() {
    assert_eq!(quantile(&[1.0, 2.0, 3.0], 0.5), 2.0);
    assert_eq!(quantile(&[1.0, 2.0, 3.0], 0.99), 3.0);
    assert_eq!(quantile(&[], 0.5), 0.0);
}
