//! Which session numbers are ours, as instructions of a filter.
//!
//! Up to some 3,600 numbers are compared one by one: a search tree leads to a short chain of
//! comparisons, so that a packet meets some twenty of them. For more numbers than there is room for, each
//! number sets a bit in each of three tables (a Bloom filter; Bloom, 1970), and a search tree leads to
//! the word that has it: a stranger's number passes only if all three bits happen to be set. Ours always
//! pass.
//!
//! The kernel makes instructions of its own of these (bpf_convert_filter of net/core/filter.c), and what they take of
//! `net.core.optmem_max` counts. Comparing with a number of 2^31 or more makes two, so the first bit is looked at once, and
//! left out of all that follows.

use tabane_io::udp::Instruction;

use Instruction::{
    Accept, And, Drop, Keep, Load, Modulo, Recall, ShiftLeftByIndex, ShiftRight, Skip, SkipIfEqual,
    SkipIfGreater, SkipIfIndexBits, SkipUnlessGreater, ToIndex,
};

/// Numbers compared one after another at a leaf of the tree. Each leaf ends with two instructions more,
/// of which the kernel makes four.
const CHAIN: usize = 32;
/// Every number without its first bit.
const REST: u32 = u32::MAX >> 1;
/// With three, some 2% of all other numbers pass at nine bits a number; with one, it would be 11%. A filter
/// of 4,096 instructions has ten bits for each of 4,000 numbers.
const TABLES: u32 = 3;
/// What leads to a table's word and what follows, all tables together, at most.
const AROUND_TABLES: usize = 64;

/// Accepts a packet if the number in the accumulator is one of `numbers`, ascending, and drops
/// nearly all others: all, if `instructions_max` has room for that. At least a few hundred.
pub fn sieve(numbers: &[u32], instructions_max: usize) -> Vec<Instruction> {
    // Most of what makes up the tree; whether it is all decides its length.
    if numbers.len() < instructions_max {
        let exact = exact(numbers);
        if exact.len() <= instructions_max {
            return exact;
        }
    }
    coarse(numbers, instructions_max)
}

fn exact(numbers: &[u32]) -> Vec<Instruction> {
    let (low, high) = numbers.split_at(numbers.partition_point(|number| *number <= REST));
    let rests: Vec<u32> = high.iter().map(|number| number & REST).collect();
    let mut with_first_bit = vec![And(REST)];
    with_first_bit.extend(tree(&rests));
    branch(REST, tree(low), with_first_bit)
}

fn tree(numbers: &[u32]) -> Vec<Instruction> {
    if numbers.len() > CHAIN {
        let (low, high) = numbers.split_at(numbers.len() / 2);
        return branch(low[low.len() - 1], tree(low), tree(high));
    }
    let to_accept = (1..=numbers.len() as u8).rev();
    let chain = numbers.iter().zip(to_accept);
    let mut code: Vec<_> = chain.map(|(n, skip)| SkipIfEqual(*n, skip)).collect();
    code.extend([Drop, Accept]);
    code
}

/// `low` if the accumulator is at most this, `high` otherwise.
fn branch(most: u32, low: Vec<Instruction>, high: Vec<Instruction>) -> Vec<Instruction> {
    let mut code = match u8::try_from(low.len()) {
        Ok(skip) => vec![SkipIfGreater(most, skip)],
        Err(_) => vec![SkipUnlessGreater(most, 1), Skip(low.len() as u32)],
    };
    code.extend(low);
    code.extend(high);
    code
}

fn coarse(numbers: &[u32], instructions_max: usize) -> Vec<Instruction> {
    // A word takes three instructions, and a branch over many words one more.
    let room = instructions_max.saturating_sub(AROUND_TABLES);
    let words = (room * 32 / (97 * TABLES as usize)).max(1);
    let mut code = vec![Keep(0)];
    for number in 0..TABLES {
        // Odd, and no more than four apart: with no divisor in common, so that no remainder says
        // anything of another.
        code.extend(table(numbers, words, words as u32 * 32 - 1 - 2 * number));
    }
    code.push(Accept);
    debug_assert!(code.len() <= instructions_max.max(AROUND_TABLES + 12));
    code
}

/// Drops the packet unless the bit of the number kept at 0 is set, which is one of `bits`.
fn table(numbers: &[u32], words: usize, bits: u32) -> Vec<Instruction> {
    let mut table = vec![0_u32; words];
    for bit in numbers.iter().map(|number| number % bits) {
        table[bit as usize / 32] |= 1 << (bit % 32);
    }
    let mut code = vec![
        Recall(0),
        Modulo(bits),
        Keep(1),
        And(31),
        ToIndex,
        Load(1),
        ShiftLeftByIndex,
        ToIndex,
        Recall(1),
        ShiftRight(5),
    ];
    code.extend(words_tree(0, &table));
    // Each word was loaded with a way to here still to go.
    let end = code.len();
    for (at, instruction) in code.iter_mut().enumerate() {
        if *instruction == TO_END {
            *instruction = Skip((end - at - 1) as u32);
        }
    }
    code.extend([SkipIfIndexBits(1), Drop]);
    code
}

/// In place of the way to the end, which is known when all is there.
const TO_END: Instruction = Skip(u32::MAX);

/// Loads the word whose number, from `first` on, is in the accumulator.
fn words_tree(first: u32, words: &[u32]) -> Vec<Instruction> {
    match words {
        [word] => vec![Load(*word), TO_END],
        _ => {
            let (low, high) = words.split_at(words.len() / 2);
            let second = first + low.len() as u32;
            let (low, high) = (words_tree(first, low), words_tree(second, high));
            branch(second - 1, low, high)
        }
    }
}
