#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tabane_fuzz::targets::scan::run(bytes));
