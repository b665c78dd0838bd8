//! A set of byte ranges that is nearly always one range.
/// A set of disjoint, non-adjacent half-open ranges, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSet;
