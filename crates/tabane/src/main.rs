//! The program `tabane`.

fn main() -> std::process::ExitCode {
    tabane::cli::main()
}
