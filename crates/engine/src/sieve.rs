//! A filter's instructions that recognise our session numbers.
//!
//! Up to some 3,600 numbers are compared exactly: a search tree leads to a short chain of comparisons, some twenty
//! instructions for a packet. If there is no room for that, each number sets a bit in each of three tables (a Bloom filter;
//! Bloom, 1970), and a search tree leads to the word with that bit: a stranger's number passes only if all three bits
//! happen to be set. Ours always pass.
//!
//! The kernel translates these instructions (bpf_convert_filter in net/core/filter.c), and the result counts towards
//! `net.core.optmem_max`. A comparison with a number of 2^31 or more becomes two instructions; so the first bit is tested
//! once, and all other comparisons leave it out.

use tabane_io::udp::Instruction;

use Instruction::{
    Accept, And, Drop, Keep, Load, Modulo, Recall, ShiftLeftByIndex, ShiftRight, Skip, SkipIfEqual,
    SkipIfGreater, SkipIfIndexBits, SkipUnlessGreater, ToIndex,
};

/// Numbers compared in sequence at a leaf of the tree. Each leaf ends with two more instructions, four in the kernel.
const CHAIN: usize = 32;
/// Mask of all bits but the first.
const REST: u32 = u32::MAX >> 1;
/// Number of tables. With three, some 2% of all other numbers pass at nine bits a number; with one, 11%. A filter of 4,096
/// instructions has ten bits for each of 4,000 numbers.
const TABLES: u32 = 3;
/// Upper bound of instructions before and after the tables' words, for all tables together.
const AROUND_TABLES: usize = 64;

/// Accepts a packet if the number in the accumulator is one of `numbers`, ascending. Drops all others if `instructions_max`
/// (at least a few hundred) has room for that, nearly all otherwise.
pub fn sieve(numbers: &[u32], instructions_max: usize) -> Vec<Instruction> {
    // The numbers alone take that many instructions; whether all fits shows the length.
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
    // A word takes three instructions, and a branch for many words one more.
    let room = instructions_max.saturating_sub(AROUND_TABLES);
    let words = (room * 32 / (97 * TABLES as usize)).max(1);
    let mut code = vec![Keep(0)];
    for number in 0..TABLES {
        // Odd and at most four apart, so without a common divisor: the remainders are independent.
        code.extend(table(numbers, words, words as u32 * 32 - 1 - 2 * number));
    }
    code.push(Accept);
    debug_assert!(code.len() <= instructions_max.max(AROUND_TABLES + 12));
    code
}

/// Drops the packet unless the bit for the stored number, modulo `bits`, is set.
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
    // Each word was loaded with its jump to here still open.
    let end = code.len();
    for (at, instruction) in code.iter_mut().enumerate() {
        if *instruction == TO_END {
            *instruction = Skip((end - at - 1) as u32);
        }
    }
    code.extend([SkipIfIndexBits(1), Drop]);
    code
}

/// Stands for a jump to the end, until the length is known.
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
