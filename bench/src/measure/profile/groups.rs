//! Which function belongs to what.
//!
//! A stack is a line `process;outermost function;…;innermost function`. The
//! first group all of whose conditions hold gets it. Names are of Linux 6 and of
//! this project's crates; one that is not met lands in a group farther down, in
//! the end in "everything else", which shows that the list wants to be mended.

/// A group of stacks.
pub struct Group {
    /// In the table.
    pub name: &'static str,
    /// How the process's name begins; empty for any.
    process: &'static str,
    /// The innermost function has one of these in its name; none for any.
    innermost: &'static [&'static str],
    /// Some function of the stack has one of these in its name; none for any.
    within: &'static [&'static str],
}

const fn group(
    name: &'static str,
    process: &'static str,
    innermost: &'static [&'static str],
    within: &'static [&'static str],
) -> Group {
    Group {
        name,
        process,
        innermost,
        within,
    }
}

/// The daemons' process.
const TABANE: &str = "tabane";
const COPIES: &[&str] = &[
    "copy_to_iter",
    "copy_from_iter",
    "copy_user",
    "copy_to_user",
    "copy_from_user",
    "rep_movs",
    "skb_copy_datagram",
    "copy_page",
    "memcpy",
    "memmove",
];
/// Where the kernel begins.
const KERNEL: &[&str] = &["entry_SYSCALL", "do_syscall_64", "asm_", "ret_from_fork"];

/// In the order in which they are tried.
pub const GROUPS: &[Group] = &[
    group("iperf3: copies", "iperf3", COPIES, &[]),
    group("iperf3: its TCP and all else", "iperf3", &[], &[]),
    group(
        "daemons: encryption and its checks",
        TABANE,
        &[
            "aes", "gcm", "ghash", "gmul", "chacha", "poly1305", "AEAD", "aead",
        ],
        &[],
    ),
    group(
        "daemons: encryption and its checks",
        TABANE,
        &[],
        &["ring::aead", "ring_core"],
    ),
    group("daemons: CRC-32C of the plain wire", TABANE, &["crc"], &[]),
    group(
        "daemons: CRC-32C of the plain wire",
        TABANE,
        &[],
        &["crc_fast"],
    ),
    group(
        "daemons: the kernel copies UDP",
        TABANE,
        COPIES,
        &["udp_sendmsg", "udp_recvmsg", "udpv6_"],
    ),
    group(
        "daemons: the kernel copies frames of tab0",
        TABANE,
        COPIES,
        &["packet_", "tun_"],
    ),
    group(
        "daemons: copies of their own",
        TABANE,
        &["memcpy", "memmove", "memset"],
        &[],
    ),
    // A sent packet often goes all the way to the receiver's socket within the
    // sender's system call.
    group(
        "daemons: the kernel delivers what they sent",
        TABANE,
        &[],
        &[
            "net_rx_action",
            "__napi_poll",
            "process_backlog",
            "netif_receive_skb",
        ],
    ),
    group(
        "daemons: sending UDP, down to the NIC",
        TABANE,
        &[],
        &["udp_sendmsg", "udpv6_sendmsg"],
    ),
    group(
        "daemons: receiving UDP",
        TABANE,
        &[],
        &["udp_recvmsg", "udpv6_recvmsg"],
    ),
    group(
        "daemons: frames out of tab0",
        TABANE,
        &[],
        &["packet_recvmsg", "tun_chr_read", "tpacket"],
    ),
    group(
        "daemons: frames into tab0",
        TABANE,
        &[],
        &["packet_sendmsg", "packet_snd", "tun_chr_write"],
    ),
    group(
        "daemons: waiting and waking (epoll, poll, yield)",
        TABANE,
        &[],
        &[
            "epoll_wait",
            "sys_poll",
            "sys_ppoll",
            "sched_yield",
            "futex",
            "nanosleep",
        ],
    ),
    group(
        "daemons: waiting and waking (epoll, poll, yield)",
        TABANE,
        &["sched_yield", "epoll_wait"],
        &[],
    ),
    group(
        "daemons: reading the clock",
        TABANE,
        &["clock_gettime"],
        &[],
    ),
    group(
        "daemons: other system calls, interrupts",
        TABANE,
        &[],
        KERNEL,
    ),
    group("daemons: the protocol", TABANE, &[], &["tabane_proto"]),
    group(
        "daemons: memory",
        TABANE,
        &["malloc", "free", "realloc", "calloc"],
        &[],
    ),
    group(
        "daemons: engine, system interface, virtual NIC",
        TABANE,
        &[],
        &["tabane_engine", "tabane_io", "tabane_program"],
    ),
    group("daemons: everything else", TABANE, &[], &[]),
    // Frames that wait for their turn on a link are moved on by timers and
    // kernel threads.
    group(
        "the kernel delivers, in nobody's name",
        "",
        &[],
        &[
            "net_rx_action",
            "net_tx_action",
            "__qdisc_run",
            "tcp_",
            "process_backlog",
        ],
    ),
];

/// The number of a stack's group; `None` for what has nothing to do with the
/// stream: idling, other programs.
///
/// Groups of one name count as the first of them.
pub fn group_of(stack: &str) -> Option<usize> {
    let process = stack.split(';').next()?;
    let innermost = stack.rsplit(';').next()?;
    let has = |text: &str, names: &[&str]| {
        names.is_empty() || names.iter().any(|name| text.contains(name))
    };
    let fits = |group: &Group| {
        process.starts_with(group.process)
            && has(innermost, group.innermost)
            && has(&stack[process.len()..], group.within)
    };
    let found = GROUPS.iter().find(|group| fits(group))?;
    GROUPS.iter().position(|group| group.name == found.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(stack: &str) -> &'static str {
        group_of(stack).map_or("none", |group| GROUPS[group].name)
    }

    #[test]
    fn stacks_find_their_group() {
        for (stack, wanted) in [
            ("swapper;do_idle;halt", "none"),
            ("firefox;do_syscall_64;x", "none"),
            (
                "swapper;__do_softirq;net_rx_action;x",
                "the kernel delivers, in nobody's name",
            ),
            ("iperf3;write;tcp_sendmsg;_copy_from_iter", "iperf3: copies"),
            (
                "tabane;main;ring::aead::seal;x",
                "daemons: encryption and its checks",
            ),
            (
                "tabane;x;aes_gcm_enc_update_vaes",
                "daemons: encryption and its checks",
            ),
            (
                "tabane;do_syscall_64;udp_sendmsg;_copy_from_iter",
                "daemons: the kernel copies UDP",
            ),
            (
                "tabane;do_syscall_64;udp_sendmsg;net_rx_action;x",
                "daemons: the kernel delivers what they sent",
            ),
            (
                "tabane;do_syscall_64;packet_recvmsg;x",
                "daemons: frames out of tab0",
            ),
            (
                "tabane;tabane_engine::run;tabane_proto::op::x",
                "daemons: the protocol",
            ),
            (
                "tabane;tabane_engine::run;x",
                "daemons: engine, system interface, virtual NIC",
            ),
            (
                "tabane;[unknown];__vdso_clock_gettime",
                "daemons: reading the clock",
            ),
            ("tabane;x", "daemons: everything else"),
        ] {
            assert_eq!(name(stack), wanted, "{stack}");
        }
    }
}
