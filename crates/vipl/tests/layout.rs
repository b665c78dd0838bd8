//! The header says what the library is, in C and C++, in each dialect: every number as it was published, every structure, every
//! function.

mod common;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::mem::{offset_of, size_of};
use std::process::Command;

use common::{C11, C99, CPP17, CPP98, Workshop, package};
use tabane_vipl::abi;

/// What C prints, by what it prints, and what is right.
type Table = BTreeMap<String, i64>;

fn header() -> String {
    fs::read_to_string(package("include/vipl.h")).expect("is there")
}

/// The functions that it declares.
fn functions() -> Vec<String> {
    let header = header();
    let names = header.lines().filter_map(|line| {
        let declared = line.strip_prefix("VIP_RETURN ")?;
        declared.split_once('(').map(|(name, _)| name.to_owned())
    });
    names.collect()
}

/// The numbers that the Developer's Guide has.
const NUMBERS: &[(&str, i64)] = &[
    ("VIP_TRUE", 1),
    ("VIP_FALSE", 0),
    ("VIP_INFINITE", 0xFFFF_FFFF),
    ("VIP_SUCCESS", 0),
    ("VIP_NOT_DONE", 1),
    ("VIP_INVALID_PARAMETER", 2),
    ("VIP_ERROR_RESOURCE", 3),
    ("VIP_TIMEOUT", 4),
    ("VIP_REJECT", 5),
    ("VIP_INVALID_RELIABILITY_LEVEL", 6),
    ("VIP_INVALID_MTU", 7),
    ("VIP_INVALID_QOS", 8),
    ("VIP_INVALID_PTAG", 9),
    ("VIP_INVALID_RDMAREAD", 10),
    ("VIP_DESCRIPTOR_ERROR", 11),
    ("VIP_INVALID_STATE", 12),
    ("VIP_ERROR_NAMESERVICE", 13),
    ("VIP_NO_MATCH", 14),
    ("VIP_NOT_REACHABLE", 15),
    ("VIP_ERROR_NOT_SUPPORTED", 16),
    ("VIP_SERVICE_UNRELIABLE", 1),
    ("VIP_SERVICE_RELIABLE_DELIVERY", 2),
    ("VIP_SERVICE_RELIABLE_RECEPTION", 4),
    ("VIP_STATE_IDLE", 0),
    ("VIP_STATE_CONNECTED", 1),
    ("VIP_STATE_CONNECT_PENDING", 2),
    ("VIP_STATE_ERROR", 3),
    ("VIP_DESCRIPTOR_ALIGNMENT", 64),
    ("VIP_CONTROL_OP_SENDRECV", 0),
    ("VIP_CONTROL_OP_RDMAWRITE", 1),
    ("VIP_CONTROL_OP_RDMAREAD", 2),
    ("VIP_CONTROL_OP_RESERVED", 3),
    ("VIP_CONTROL_OP_MASK", 3),
    ("VIP_CONTROL_IMMEDIATE", 4),
    ("VIP_CONTROL_QFENCE", 8),
    ("VIP_CONTROL_RESERVED", 0xFFF0),
    ("VIP_STATUS_DONE", 1),
    ("VIP_STATUS_FORMAT_ERROR", 2),
    ("VIP_STATUS_PROTECTION_ERROR", 4),
    ("VIP_STATUS_LENGTH_ERROR", 8),
    ("VIP_STATUS_PARTIAL_ERROR", 0x10),
    ("VIP_STATUS_DESC_FLUSHED_ERROR", 0x20),
    ("VIP_STATUS_TRANSPORT_ERROR", 0x40),
    ("VIP_STATUS_RDMA_PROT_ERROR", 0x80),
    ("VIP_STATUS_REMOTE_DESC_ERROR", 0x100),
    ("VIP_STATUS_ERROR_MASK", 0x1FE),
    ("VIP_STATUS_OP_SEND", 0),
    ("VIP_STATUS_OP_RECEIVE", 0x10000),
    ("VIP_STATUS_OP_RDMA_WRITE", 0x20000),
    ("VIP_STATUS_OP_REMOTE_RDMA_WRITE", 0x30000),
    ("VIP_STATUS_OP_RDMA_READ", 0x40000),
    ("VIP_STATUS_OP_MASK", 0x70000),
    ("VIP_STATUS_IMMEDIATE", 0x80000),
    ("VIP_STATUS_RESERVED", 0xFFF0_FE00),
    ("VIP_ERROR_POST_DESC", 0),
    ("VIP_ERROR_CONN_LOST", 1),
    ("VIP_ERROR_RECVQ_EMPTY", 2),
    ("VIP_ERROR_VI_OVERRUN", 3),
    ("VIP_ERROR_RDMAW_PROT", 4),
    ("VIP_ERROR_RDMAW_DATA", 5),
    ("VIP_ERROR_RDMAW_ABORT", 6),
    ("VIP_ERROR_RDMAR_PROT", 7),
    ("VIP_ERROR_COMP_PROT", 8),
    ("VIP_ERROR_RDMA_TRANSPORT", 9),
    ("VIP_ERROR_CATASTROPHIC", 10),
    ("VIP_RESOURCE_NIC", 0),
    ("VIP_RESOURCE_VI", 1),
    ("VIP_RESOURCE_CQ", 2),
    ("VIP_RESOURCE_DESCRIPTOR", 3),
    ("VIP_SMI_AUTODISCOVERY", 1),
];

/// Sizes of structures and places of their members, as C has them and as Rust does.
fn structures() -> Table {
    let mut table = Table::new();
    macro_rules! structure {
        ($c:literal, $rust:ty, $($member:literal = $field:ident),*) => {
            table.insert(format!("sizeof({})", $c), size_of::<$rust>() as i64);
            $(table.insert(
                format!("offsetof({}, {})", $c, $member),
                offset_of!($rust, $field) as i64,
            );)*
        };
    }
    structure!(
        "VIP_NET_ADDRESS",
        abi::NetAddress,
        "HostAddressLen" = host_bytes,
        "DiscriminatorLen" = discriminator_bytes,
        "HostAddress" = host
    );
    structure!(
        "VIP_NIC_ATTRIBUTES",
        abi::NicAttributes,
        "Name" = name,
        "HardwareVersion" = hardware_version,
        "ProviderVersion" = provider_version,
        "NicAddressLen" = nic_address_bytes,
        "LocalNicAddress" = local_nic_address,
        "ThreadSafe" = thread_safe,
        "MaxDiscriminatorLen" = discriminator_bytes_max,
        "MaxRegisterBytes" = register_bytes_max,
        "MaxRegisterRegions" = register_regions_max,
        "MaxRegisterBlockBytes" = register_block_bytes_max,
        "MaxVI" = vi_max,
        "MaxDescriptorsPerQueue" = descriptors_per_queue_max,
        "MaxSegmentsPerDesc" = segments_per_descriptor_max,
        "MaxCQ" = cq_max,
        "MaxCQEntries" = cq_entries_max,
        "MaxTransferSize" = transfer_bytes_max,
        "NativeMTU" = native_mtu,
        "MaxPtags" = ptags_max,
        "ReliabilityLevelSupport" = reliability_levels,
        "RDMAReadSupport" = rdma_read_levels
    );
    structure!(
        "VIP_MEM_ATTRIBUTES",
        abi::MemAttributes,
        "Ptag" = ptag,
        "EnableRdmaWrite" = enable_rdma_write,
        "EnableRdmaRead" = enable_rdma_read
    );
    structure!(
        "VIP_VI_ATTRIBUTES",
        abi::ViAttributes,
        "ReliabilityLevel" = reliability_level,
        "MaxTransferSize" = transfer_bytes_max,
        "QoS" = qos,
        "Ptag" = ptag,
        "EnableRdmaWrite" = enable_rdma_write,
        "EnableRdmaRead" = enable_rdma_read
    );
    structure!(
        "VIP_CONTROL_SEGMENT",
        abi::ControlSegment,
        "Next" = next,
        "NextHandle" = next_handle,
        "SegCount" = segments,
        "Control" = control,
        "Reserved" = reserved,
        "ImmediateData" = immediate,
        "Length" = bytes,
        "Status" = status
    );
    structure!(
        "VIP_DATA_SEGMENT",
        abi::Segment,
        "Data" = address,
        "Handle" = handle,
        "Length" = bytes
    );
    structure!(
        "VIP_ADDRESS_SEGMENT",
        abi::Segment,
        "Data" = address,
        "Handle" = handle,
        "Reserved" = bytes
    );
    structure!("VIP_DESCRIPTOR_SEGMENT", abi::Segment,);
    structure!(
        "VIP_DESCRIPTOR",
        abi::Descriptor,
        "Control" = control,
        "CS" = control,
        "Data" = segments,
        "DS" = segments,
        "Segment" = segments
    );
    structure!(
        "VIP_ERROR_DESCRIPTOR",
        abi::ErrorDescriptor,
        "NicHandle" = nic,
        "ViHandle" = vi,
        "CQHandle" = cq,
        "DescriptorPtr" = descriptor,
        "OpCode" = op_code,
        "ResourceCode" = resource_code,
        "ErrorCode" = error_code
    );
    structure!(
        "VIP_AUTODISCOVERY_LIST",
        abi::AutodiscoveryList,
        "NumberOfHops" = hops,
        "ADAddrArray" = addresses,
        "NumAdAddrs" = count
    );
    table
}

/// A program that prints all of it, and needs every function.
fn source(expected: &Table) -> String {
    let mut text = "#include <vipl.h>\n#include <stddef.h>\n#include <stdio.h>\n".to_owned();
    text += "typedef void (*any)(void);\nany all[] = {\n";
    for name in functions() {
        writeln!(text, "(any){name},").expect("is written");
    }
    text += "};\nint main(void) {\n";
    for name in expected.keys() {
        writeln!(text, "printf(\"{name}=%ld\\n\", (long) {name});").expect("is written");
    }
    text + "return all[0] == 0;\n}\n"
}

#[test]
fn there_are_41_functions_and_no_others_are_exported() {
    let mut declared = functions();
    assert_eq!(declared.len(), 41);
    let workshop = Workshop::new();
    let mut command = Command::new("nm");
    command.args(["--dynamic", "--defined-only"]);
    let library = workshop.path("libtabane-vipl.so");
    let said = command.arg(library).output().expect("nm is there");
    let said = String::from_utf8(said.stdout).expect("is text");
    let names = said.lines().filter_map(|line| line.rsplit(' ').next());
    let mut exported: Vec<_> = names.map(str::to_owned).collect();
    exported.sort_unstable();
    declared.sort_unstable();
    assert_eq!(exported, declared);
}

#[test]
fn numbers_and_structures_are_as_published() {
    let workshop = Workshop::new();
    let mut expected = structures();
    expected.extend(
        NUMBERS
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value)),
    );
    assert_eq!(expected["sizeof(VIP_DESCRIPTOR)"], 64);
    let file = workshop.path("layout.c");
    fs::write(&file, source(&expected)).expect("is written");
    for compiler in [C99, C11, CPP98, CPP17] {
        let program = workshop.program(compiler, &file, "layout");
        let said = Command::new(program).output().expect("runs");
        assert!(said.status.success());
        let said = String::from_utf8(said.stdout).expect("is text");
        let found = said.lines().map(|line| {
            let (name, value) = line.rsplit_once('=').expect("a value");
            (name.to_owned(), value.parse().expect("a number"))
        });
        assert_eq!(found.collect::<Table>(), expected);
    }
}

#[test]
fn who_has_macros_of_these_names_goes_without() {
    let workshop = Workshop::new();
    let file = workshop.path("macros.c");
    let text = "#include <sys/reg.h>\n#include <vipl.h>\n\
                int main(void) { VIP_DESCRIPTOR d; d.Control.Status = CS - DS; return d.Control.Status == 0; }\n";
    fs::write(&file, text).expect("is written");
    workshop.program(C11, &file, "macros");
}
