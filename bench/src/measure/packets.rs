//! What 1 GB (2^30 bytes) costs in packets, counted as RI2N/DRV was: those that
//! the sender's NICs send, and those that come back.

use crate::crowd::{Carrier, Traffic};
use crate::{Report, Samples, Settings, Table};
use tabane_lab::cluster::Wire;
use tabane_lab::ways::{Arena, Way, arenas};
use tabane_lab::{DeviceCounters, Fault, LabError, LinkSpec};

use super::two_nodes;

const WAYS: [Way; 5] = [
    Way::Tcp { link: 0 },
    Way::Mptcp,
    Way::BalanceRr,
    Way::Tabane(Wire::Encrypted),
    Way::Tabane(Wire::Plain),
];
const GB: f64 = (1u64 << 30) as f64;
const ROWS: [Carrier; 2] = [Carrier::Tcp, Carrier::Bundle];

/// For each 2^30 bytes of payload.
#[derive(Default)]
struct Figures {
    packets_out: Samples,
    packets_back: Samples,
    /// Bytes of all packets, of each byte of payload.
    bytes_out: Samples,
    bytes_back: Samples,
    /// TCP's own packets on `tab0`.
    tcp_out: Samples,
    tcp_back: Samples,
}

/// On 2 links of 1 Gb/s.
pub fn measure(settings: &Settings) -> Result<Report, LabError> {
    let config = two_nodes(vec![LinkSpec::default(); 2]);
    let arenas = arenas(&WAYS, &config, &settings.tabane)?;
    for arena in &arenas {
        for link in 0..arena.lab().links() {
            // Nothing is lost, but NICs send frame by frame, so that they are counted.
            arena.lab().fail(link, Fault::Loss { percent: 0.0 }, None)?;
        }
    }
    let title = "Packets for 1 GB (2^30 bytes) over 2 × 1 Gb/s, MTU 1500";
    let note = "Sent and received by the sender's NICs while one stream runs, for each GB of payload. \
        Of those on `tab0`, one may be as long as 350 KB.";
    let columns = [
        "way",
        "packets out",
        "packets back",
        "bytes out × payload",
        "bytes back × payload",
        "on tab0 out",
        "on tab0 back",
    ];
    let mut table = Table::new(title, note, &columns);
    for arena in &arenas {
        for carrier in ROWS {
            if carrier == Carrier::Bundle && arena.cluster().is_none() {
                continue;
            }
            let mut figures = Figures::default();
            for _ in 0..settings.rounds {
                figures.note(settings, arena, carrier)?;
            }
            let name = match carrier {
                Carrier::Tcp => arena.way().to_string(),
                Carrier::Bundle => format!("{}, bundle stream", arena.way()),
            };
            table.rows.push(vec![
                name.into(),
                figures.packets_out.into(),
                figures.packets_back.into(),
                figures.bytes_out.into(),
                figures.bytes_back.into(),
                figures.tcp_out.into(),
                figures.tcp_back.into(),
            ]);
        }
    }
    Ok(Report {
        tables: vec![table],
        ..Report::default()
    })
}

impl Figures {
    fn note(
        &mut self,
        settings: &Settings,
        arena: &Arena,
        carrier: Carrier,
    ) -> Result<(), LabError> {
        let counted = || -> Result<_, LabError> {
            let lab = arena.lab();
            let tab0 = match arena.cluster() {
                Some(_) => lab.device_counters(0, "tab0")?,
                None => DeviceCounters::default(),
            };
            Ok((lab.nic_counters(0)?, tab0))
        };
        let stream = Traffic {
            streams: vec![(0, 1)],
            ping: None,
        };
        let before = counted()?;
        let payload = stream.run(settings, arena, carrier)?.bytes as f64 / GB;
        let after = counted()?;
        let (wire, tab0) = (after.0.since(before.0), after.1.since(before.1));
        let each = |count: u64| count as f64 / payload;
        self.packets_out.0.push(each(wire.tx_packets));
        self.packets_back.0.push(each(wire.rx_packets));
        self.bytes_out.0.push(each(wire.tx_bytes) / GB);
        self.bytes_back.0.push(each(wire.rx_bytes) / GB);
        if arena.cluster().is_some() && carrier == Carrier::Tcp {
            self.tcp_out.0.push(each(tab0.tx_packets));
            self.tcp_back.0.push(each(tab0.rx_packets));
        }
        Ok(())
    }
}
