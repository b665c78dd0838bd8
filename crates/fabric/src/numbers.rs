//! Numbers and operations of atomics, from libfabric's to the engine's.

use tabane_rank::{ATOMIC_BYTES_MAX, Number, Operation};

use crate::abi::errors::{self, Outcome};

/// Numbers in libfabric's order; none: there is no such arithmetic here (`long double`).
const NUMBERS: [Option<Number>; 16] = [
    Some(Number::I8),
    Some(Number::U8),
    Some(Number::I16),
    Some(Number::U16),
    Some(Number::I32),
    Some(Number::U32),
    Some(Number::I64),
    Some(Number::U64),
    Some(Number::F32),
    Some(Number::F64),
    Some(Number::ComplexF32),
    Some(Number::ComplexF64),
    None,
    None,
    Some(Number::I128),
    Some(Number::U128),
];

/// Which call the operation comes by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Nothing comes back.
    Base,
    /// Returns the old value.
    Fetch,
    /// The same, with a comparand.
    Compare,
}

/// The engine's words for an operation.
///
/// # Errors
/// `-FI_EOPNOTSUPP`: there is no such, or not by this call, or not on these numbers.
pub fn operation(datatype: u32, op: u32, kind: Kind) -> Outcome<(Number, Operation)> {
    let number = NUMBERS.get(datatype as usize).copied().flatten();
    let operation = Operation::from_number(op);
    let (Some(number), Some(operation)) = (number, operation) else {
        return Err(errors::OPNOTSUPP);
    };
    let is_compared = operation.compares();
    let fits = match kind {
        Kind::Base => !is_compared && operation != Operation::Read,
        Kind::Fetch => !is_compared,
        Kind::Compare => is_compared,
    };
    if fits && operation.takes(number) {
        Ok((number, operation))
    } else {
        Err(errors::OPNOTSUPP)
    }
}

/// How many numbers one operation takes at most.
pub fn count_max(number: Number) -> usize {
    ATOMIC_BYTES_MAX / number.bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_has_its_call() {
        // FI_UINT64 is 7; FI_SUM 2, FI_ATOMIC_READ 10, FI_ATOMIC_WRITE 11, FI_CSWAP 12, FI_MSWAP 18, FI_DIFF 19.
        let of = |op, kind| operation(7, op, kind).map(|(_, operation)| operation);
        assert_eq!(of(2, Kind::Base), Ok(Operation::Sum));
        assert_eq!(of(2, Kind::Fetch), Ok(Operation::Sum));
        assert_eq!(of(10, Kind::Fetch), Ok(Operation::Read));
        assert_eq!(of(11, Kind::Base), Ok(Operation::Write));
        assert_eq!(of(12, Kind::Compare), Ok(Operation::Swap));
        assert_eq!(of(18, Kind::Compare), Ok(Operation::SwapMasked));
        assert_eq!(of(19, Kind::Base), Ok(Operation::Difference));
        for (op, kind) in [
            (10, Kind::Base),
            (12, Kind::Base),
            (18, Kind::Fetch),
            (2, Kind::Compare),
        ] {
            assert_eq!(of(op, kind), Err(errors::OPNOTSUPP), "{op} {kind:?}");
        }
    }

    #[test]
    fn numbers_that_are_not_here_are_refused() {
        for datatype in [12, 13, 16, 19, 256, u32::MAX] {
            assert!(operation(datatype, 2, Kind::Base).is_err(), "{datatype}");
        }
        // FI_DOUBLE takes no FI_BOR.
        assert!(operation(9, 6, Kind::Base).is_err());
        assert_eq!(count_max(Number::U64), ATOMIC_BYTES_MAX / 8);
    }
}
