//! The arithmetic of atomic operations.

use crate::{Number, Operation};

const NUMBERS: [Number; 14] = [
    Number::I8,
    Number::U8,
    Number::I16,
    Number::U16,
    Number::I32,
    Number::U32,
    Number::I64,
    Number::U64,
    Number::F32,
    Number::F64,
    Number::ComplexF32,
    Number::ComplexF64,
    Number::I128,
    Number::U128,
];

/// The kind of number that a byte on the wire says.
pub(crate) fn number(byte: u8) -> Option<Number> {
    NUMBERS.get(usize::from(byte)).copied()
}

/// What every kind of number supports.
trait Value: Copy + PartialEq {
    fn sum(self, other: Self) -> Self;
    fn difference(self, other: Self) -> Self;
    fn product(self, other: Self) -> Self;
    fn is_set(self) -> bool;
    fn of(set: bool) -> Self;
    /// None: there is no order.
    fn less(self, other: Self) -> Option<bool>;
    /// None: there are no bits to be looked at.
    fn bits(self, other: Self, act: fn(u128, u128) -> u128) -> Option<Self>;
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Value for $type {
            fn sum(self, other: Self) -> Self { self.wrapping_add(other) }
            fn difference(self, other: Self) -> Self { self.wrapping_sub(other) }
            fn product(self, other: Self) -> Self { self.wrapping_mul(other) }
            fn is_set(self) -> bool { self != 0 }
            fn of(set: bool) -> Self { set.into() }
            fn less(self, other: Self) -> Option<bool> { Some(self < other) }
            fn bits(self, other: Self, act: fn(u128, u128) -> u128) -> Option<Self> {
                Some(act(self as u128, other as u128) as $type)
            }
        }
    )*};
}

macro_rules! floats {
    ($($type:ty),*) => {$(
        impl Value for $type {
            fn sum(self, other: Self) -> Self { self + other }
            fn difference(self, other: Self) -> Self { self - other }
            fn product(self, other: Self) -> Self { self * other }
            fn is_set(self) -> bool { self != 0.0 }
            fn of(set: bool) -> Self { u8::from(set).into() }
            fn less(self, other: Self) -> Option<bool> { Some(self < other) }
            fn bits(self, _: Self, _: fn(u128, u128) -> u128) -> Option<Self> { None }
        }
    )*};
}

/// A complex number.
#[derive(Clone, Copy, PartialEq)]
struct Complex<T>(T, T);

macro_rules! complexes {
    ($($type:ty),*) => {$(
        impl Value for Complex<$type> {
            fn sum(self, other: Self) -> Self { Complex(self.0 + other.0, self.1 + other.1) }
            fn difference(self, other: Self) -> Self { Complex(self.0 - other.0, self.1 - other.1) }
            fn product(self, other: Self) -> Self {
                let real = self.0 * other.0 - self.1 * other.1;
                Complex(real, self.0 * other.1 + self.1 * other.0)
            }
            fn is_set(self) -> bool { self.0 != 0.0 || self.1 != 0.0 }
            fn of(set: bool) -> Self { Complex(u8::from(set).into(), 0.0) }
            fn less(self, _: Self) -> Option<bool> { None }
            fn bits(self, _: Self, _: fn(u128, u128) -> u128) -> Option<Self> { None }
        }
    )*};
}

integers!(i8, u8, i16, u16, i32, u32, i64, u64, i128, u128);
floats!(f32, f64);
complexes!(f32, f64);

/// The new value after `operation`; `None` if it is not defined for such values.
fn after<T: Value>(operation: Operation, there: T, operand: T, compare: T) -> Option<T> {
    let swap = |holds: bool| if holds { operand } else { there };
    Some(match operation {
        Operation::Min => swap(operand.less(there)?),
        Operation::Max => swap(there.less(operand)?),
        Operation::Sum => there.sum(operand),
        Operation::Difference => there.difference(operand),
        Operation::Product => there.product(operand),
        Operation::LogicalOr => T::of(there.is_set() || operand.is_set()),
        Operation::LogicalAnd => T::of(there.is_set() && operand.is_set()),
        Operation::LogicalXor => T::of(there.is_set() != operand.is_set()),
        Operation::BitOr => there.bits(operand, |a, b| a | b)?,
        Operation::BitAnd => there.bits(operand, |a, b| a & b)?,
        Operation::BitXor => there.bits(operand, |a, b| a ^ b)?,
        Operation::Read => there,
        Operation::Write => operand,
        // The comparand is the left operand, as in libfabric.
        Operation::Swap => swap(compare == there),
        Operation::SwapNotEqual => swap(compare != there),
        Operation::SwapLessEqual => swap(compare.less(there)? || compare == there),
        Operation::SwapLess => swap(compare.less(there)?),
        Operation::SwapGreaterEqual => swap(there.less(compare)? || compare == there),
        Operation::SwapGreater => swap(there.less(compare)?),
        Operation::SwapMasked => {
            let kept = there.bits(compare, |there, mask| there & !mask)?;
            kept.bits(operand.bits(compare, |new, mask| new & mask)?, |a, b| a | b)?
        }
    })
}

fn each<T: Value, const N: usize>(
    operation: Operation,
    (there, operand, compare): (&mut [u8], &[u8], &[u8]),
    read: fn([u8; N]) -> T,
    write: fn(T) -> [u8; N],
) {
    let no_compare = [0; N];
    let mut compares = compare.as_chunks::<N>().0.iter();
    let operands = operand.as_chunks::<N>().0;
    for (there, operand) in there.as_chunks_mut::<N>().0.iter_mut().zip(operands) {
        let compare = compares.next().unwrap_or(&no_compare);
        if let Some(value) = after(operation, read(*there), read(*operand), read(*compare)) {
            *there = write(value);
        }
    }
}

/// Computes on each number of `there`. `operand` is as long, and so is `compare` where something is compared with.
pub(crate) fn compute(
    operation: Operation,
    number: Number,
    there: &mut [u8],
    operand: &[u8],
    compare: &[u8],
) {
    let on = (there, operand, compare);
    macro_rules! plain {
        ($type:ty) => {
            each(operation, on, <$type>::from_ne_bytes, <$type>::to_ne_bytes)
        };
    }
    macro_rules! complex {
        ($type:ty, $half:literal) => {
            each(
                operation,
                on,
                |bytes: [u8; 2 * $half]| {
                    let (real, imaginary) = bytes.split_at($half);
                    let part =
                        |half: &[u8]| <$type>::from_ne_bytes(half.try_into().unwrap_or_default());
                    Complex(part(real), part(imaginary))
                },
                |value| {
                    let mut bytes = [0; 2 * $half];
                    bytes[..$half].copy_from_slice(&value.0.to_ne_bytes());
                    bytes[$half..].copy_from_slice(&value.1.to_ne_bytes());
                    bytes
                },
            )
        };
    }
    match number {
        Number::I8 => plain!(i8),
        Number::U8 => plain!(u8),
        Number::I16 => plain!(i16),
        Number::U16 => plain!(u16),
        Number::I32 => plain!(i32),
        Number::U32 => plain!(u32),
        Number::I64 => plain!(i64),
        Number::U64 => plain!(u64),
        Number::I128 => plain!(i128),
        Number::U128 => plain!(u128),
        Number::F32 => plain!(f32),
        Number::F64 => plain!(f64),
        Number::ComplexF32 => complex!(f32, 4),
        Number::ComplexF64 => complex!(f64, 8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_i32(operation: Operation, there: i32, operand: i32, compare: i32) -> i32 {
        let mut bytes = there.to_ne_bytes();
        let (operand, compare) = (operand.to_ne_bytes(), compare.to_ne_bytes());
        compute(operation, Number::I32, &mut bytes, &operand, &compare);
        i32::from_ne_bytes(bytes)
    }

    #[test]
    fn each_operation_computes_what_it_is_called() {
        use Operation::*;
        let cases = [
            (Min, 3, -5, 0, -5),
            (Max, 3, -5, 0, 3),
            (Sum, i32::MAX, 1, 0, i32::MIN),
            (Difference, 3, 5, 0, -2),
            (Product, 3, 5, 0, 15),
            (LogicalOr, 0, 7, 0, 1),
            (LogicalAnd, 2, 4, 0, 1),
            (LogicalXor, 2, 4, 0, 0),
            (BitOr, 0b0101, 0b0011, 0, 0b0111),
            (BitAnd, 0b0101, 0b0011, 0, 0b0001),
            (BitXor, 0b0101, 0b0011, 0, 0b0110),
            (Read, 3, 5, 0, 3),
            (Write, 3, 5, 0, 5),
            (Swap, 3, 5, 3, 5),
            (Swap, 3, 5, 4, 3),
            (SwapNotEqual, 3, 5, 4, 5),
            (SwapLessEqual, 3, 5, 3, 5),
            (SwapLess, 3, 5, 3, 3),
            (SwapLess, 3, 5, 2, 5),
            (SwapGreaterEqual, 3, 5, 3, 5),
            (SwapGreater, 3, 5, 4, 5),
            (SwapGreater, 3, 5, 3, 3),
            (SwapMasked, 0b1100, 0b0011, 0b0110, 0b1010),
        ];
        for (operation, there, operand, compare, wanted) in cases {
            let is = on_i32(operation, there, operand, compare);
            assert_eq!(is, wanted, "{operation:?} {there} {operand} {compare}");
        }
    }

    #[test]
    fn all_numbers_of_an_operand_are_computed_with() {
        let mut there: Vec<u8> = [1.5f64, 2.5].iter().flat_map(|v| v.to_ne_bytes()).collect();
        let operand: Vec<u8> = [1.0f64, -1.0]
            .iter()
            .flat_map(|v| v.to_ne_bytes())
            .collect();
        compute(Operation::Sum, Number::F64, &mut there, &operand, &[]);
        let wanted: Vec<u8> = [2.5f64, 1.5].iter().flat_map(|v| v.to_ne_bytes()).collect();
        assert_eq!(there, wanted);
        let complex = |a: f32, b: f32| [a.to_ne_bytes(), b.to_ne_bytes()].concat();
        let (mut there, operand) = (complex(1.0, 2.0), complex(3.0, 4.0));
        compute(
            Operation::Product,
            Number::ComplexF32,
            &mut there,
            &operand,
            &[],
        );
        assert_eq!(there, complex(-5.0, 10.0));
    }

    #[test]
    fn bytes_on_the_wire_say_the_same_here() {
        for (n, number) in NUMBERS.iter().enumerate() {
            assert_eq!(*number as usize, n);
        }
        for (n, operation) in Operation::ALL.iter().enumerate() {
            assert_eq!(*operation as usize, n);
            assert_eq!(Operation::from_number(n as u32), Some(*operation));
        }
        assert_eq!((number(14), Operation::from_number(20)), (None, None));
    }
}
