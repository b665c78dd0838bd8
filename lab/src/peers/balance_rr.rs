//! What Linux bonding's balance-rr does, for kernels without the module: the
//! packets sent on link 0 go out on all links in turn.

use std::fmt::Write;

use super::on_every_node;
use crate::tools::{IP, NFT, SH};
use crate::{Lab, LabError, wiring};

/// Stripe every node's IPv4 packets to addresses of link 0 over all links.
///
/// All NICs of a node get one MAC address, as in a bond, and take packets for
/// any of its addresses.
///
/// # Errors
/// The kernel lacks the netdev egress hook (Linux 5.16) or refuses otherwise.
pub fn balance_rr(lab: &Lab) -> Result<(), LabError> {
    let links = lab.links();
    on_every_node(lab, IP, |node| {
        let one = |link| {
            format!(
                "link set {} address 02:7a:62:00:ff:{:02x}\n",
                wiring::nic(link),
                node + 1
            )
        };
        (0..links).map(one).collect()
    })?;
    let filters = (0..links).map(wiring::nic).chain(["all".into()]);
    let off = |device: String| format!("echo 0 > /proc/sys/net/ipv4/conf/{device}/rp_filter\n");
    let off: String = filters.map(off).collect();
    on_every_node(lab, SH, |_| off.clone())?;
    on_every_node(lab, NFT, |_| turns(links))
}

fn turns(links: usize) -> String {
    let mut orders = String::from("table netdev balance {\n");
    let mut verdicts = Vec::new();
    for link in 1..links {
        let _ = writeln!(
            orders,
            "  chain link{link} {{ fwd to \"{}\"; }}",
            wiring::nic(link)
        );
        verdicts.push(format!("{link} : goto link{link}"));
    }
    if !verdicts.is_empty() {
        let verdicts = verdicts.join(", ");
        let _ = writeln!(orders, "  chain turn {{");
        let _ = writeln!(
            orders,
            "    type filter hook egress device \"eth0\" priority 0;"
        );
        let _ = writeln!(
            orders,
            "    ether type ip numgen inc mod {links} vmap {{ {verdicts} }}\n  }}"
        );
    }
    orders + "}\n"
}
