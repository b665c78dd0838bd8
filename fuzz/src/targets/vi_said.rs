//! Any bytes as what two ends say to connect their VIs, and as the data beside a message: what is understood is what would be
//! said.

use tabane_vipl::foreign;

/// Feeds it `bytes`.
pub fn run(bytes: &[u8]) {
    if let Some(again) = foreign::said(bytes) {
        assert_eq!(foreign::said(&again).as_ref(), Some(&again));
        assert_eq!(again.len(), bytes.len());
    }
    if let Some((word, _)) = bytes.split_first_chunk() {
        let (again, why) = foreign::data(u64::from_le_bytes(*word));
        assert_eq!(foreign::data(again).0, again);
        assert!((1..=6).contains(&why));
    }
}
