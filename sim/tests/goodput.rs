//! More links are never slower than the best one alone. All of the matrix is run by
//! `sim snapshot`, which `make test` calls; these are the corners of it.

use tabane_sim::snapshot::Matrix;

#[test]
fn a_far_lossy_or_slow_link_does_no_harm() {
    let corners = Matrix {
        ratios: vec![1, 100],
        losses: vec![0, 50],
        skews_ms: vec![0, 20],
        ..Matrix::default()
    };
    let table = corners.table(2);
    assert!(
        table.harmed.is_empty(),
        "{:?}\n{}",
        table.harmed,
        table.text
    );
}
