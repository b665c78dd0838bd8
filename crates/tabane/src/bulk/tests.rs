use crate::bench::quantile;

#[test]
fn quantiles_of_few_and_none() {
    assert_eq!(quantile(&[1.0, 2.0, 3.0], 0.5), 2.0);
    assert_eq!(quantile(&[1.0, 2.0, 3.0], 0.99), 3.0);
    assert_eq!(quantile::<f64>(&[], 0.5), 0.0);
}
