//! The header says what the library is: every constant, every structure, every function, in C11 and
//! in C++17.

mod common;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::mem::{offset_of, size_of};
use std::process::Command;

use common::{C, CPP, Workshop, package};
use tabane::abi;

/// What C prints, by the line of the program that prints it, and what Rust has.
type Table = BTreeMap<String, i64>;

fn header() -> String {
    fs::read_to_string(package("include/tabane.h")).expect("is there")
}

/// The names that the header defines as constants.
fn constants() -> Vec<String> {
    let header = header();
    let names = header.lines().filter_map(|line| {
        let mut words = line.strip_prefix("#define ")?.split_whitespace();
        let name = words.next()?;
        words.next().map(|_| name.to_owned())
    });
    names.collect()
}

/// The functions that it declares.
fn functions() -> Vec<String> {
    let header = header();
    let code = header
        .lines()
        .filter(|line| !line.trim_start().starts_with(['*', '/']));
    let names = code.filter_map(|line| {
        let (before, _) = line.split_once('(')?;
        let name = before.rsplit([' ', '*']).next()?;
        name.starts_with("tabane_").then(|| name.to_owned())
    });
    names.collect()
}

macro_rules! structure {
    ($table:ident, $name:literal, $type:ty: $($field:ident),*) => {
        $table.insert(format!("sizeof({})", $name), size_of::<$type>() as i64);
        $($table.insert(
            format!("offsetof({}, {})", $name, stringify!($field)),
            offset_of!($type, $field) as i64,
        );)*
    };
}

fn structures() -> Table {
    let mut table = Table::new();
    structure!(table, "tabane_message", abi::Message: from, flow, has_tag, tag, bytes);
    structure!(table, "tabane_event", abi::Event: kind, link, value, peer, text);
    structure!(table, "tabane_path", abi::Path: link, is_up, rtt_us, rate_bytes_per_s, bytes_acked,
        bytes_received, packets_lost);
    table
}

fn numbers() -> Table {
    let tables = [abi::ERRORS, abi::POLICIES, abi::EVENTS];
    let all = tables.into_iter().flatten();
    let mut table: Table = all
        .map(|(name, value)| (name.to_string(), i64::from(*value)))
        .collect();
    table.extend(
        [
            ("TABANE_NAME_BYTES_MAX", abi::TABANE_NAME_BYTES_MAX as i64),
            ("TABANE_LINKS_MAX", abi::TABANE_LINKS_MAX as i64),
            ("TABANE_KEY_BYTES", abi::TABANE_KEY_BYTES as i64),
            (
                "TABANE_MESSAGE_BYTES_MAX",
                abi::TABANE_MESSAGE_BYTES_MAX as i64,
            ),
            ("TABANE_FLOWS_MAX", abi::TABANE_FLOWS_MAX as i64),
            ("TABANE_TEXT_BYTES", abi::TABANE_TEXT_BYTES as i64),
            ("TABANE_FOREVER", abi::TABANE_FOREVER.into()),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    table
}

/// A program that prints all of it, and needs every function.
fn source() -> String {
    let mut text = "#include <tabane.h>\n#include <stdio.h>\n".to_owned();
    text += "typedef void (*any)(void);\nany all[] = {\n";
    for name in functions() {
        writeln!(text, "(any){name},").expect("is written");
    }
    text += "};\nint main(void) {\n";
    for name in structures().into_keys().chain(constants()) {
        writeln!(text, "printf(\"{name}=%lld\\n\", (long long){name});").expect("is written");
    }
    text + "return all[0] == 0;\n}\n"
}

#[test]
fn constants_and_structures_are_the_same_in_c_cpp_and_rust() {
    let workshop = Workshop::new();
    let file = workshop.path("layout.c");
    fs::write(&file, source()).expect("is written");
    let mut expected = structures();
    expected.extend(numbers());
    for compiler in [C, CPP] {
        let program = workshop.program(compiler, &file, "layout");
        let said = Command::new(program).output().expect("runs");
        assert!(said.status.success());
        let said = String::from_utf8(said.stdout).expect("is text");
        let found = said.lines().map(|line| {
            let (name, value) = line.split_once('=').expect("a value");
            (name.to_owned(), value.parse().expect("a number"))
        });
        assert_eq!(found.collect::<Table>(), expected);
    }
}

#[test]
fn limits_are_those_of_the_cluster_and_the_protocol() {
    assert_eq!(abi::TABANE_NAME_BYTES_MAX, tabane_cluster::NAME_BYTES_MAX);
    assert_eq!(abi::TABANE_KEY_BYTES, tabane_cluster::KEY_BYTES);
    assert_eq!(abi::TABANE_LINKS_MAX, tabane_proto::limits::LINKS_MAX);
    let longest = tabane_proto::op::MESSAGE_DATA_BYTES_MAX;
    assert_eq!(abi::TABANE_MESSAGE_BYTES_MAX, longest);
    assert_eq!(abi::TABANE_FLOWS_MAX, tabane_proto::op::MESSAGE_FLOWS_MAX);
}

#[test]
fn what_is_exported_is_what_the_header_declares() {
    let workshop = Workshop::new();
    let mut command = Command::new("nm");
    command.args(["--dynamic", "--defined-only"]);
    let said = command
        .arg(workshop.path("libtabane.so"))
        .output()
        .expect("nm is there");
    let said = String::from_utf8(said.stdout).expect("is text");
    let names = said.lines().filter_map(|line| line.rsplit(' ').next());
    let mut exported: Vec<_> = names.collect();
    exported.sort_unstable();
    let mut declared = functions();
    declared.sort_unstable();
    assert_eq!(exported, declared);
}
