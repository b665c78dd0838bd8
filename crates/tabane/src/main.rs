//! The program `tabane`.

fn main() -> std::process::ExitCode {
    tabane_program::cli::main()
}
