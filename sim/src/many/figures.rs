//! What a cluster costs each of its nodes that may have far fewer bundles over links than there are nodes.

use core::fmt;
use std::time::Duration;

use super::Many;
use crate::random::Random;

/// Bundles over links that a node has at most.
const BUNDLES_MAX: u16 = 64;
/// All start within this time.
const START: Duration = Duration::from_millis(100);
/// So often it is looked whether all are there …
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// … and for how long.
const PATIENCE: Duration = Duration::from_secs(30);
/// Nodes that are connected have nothing to do after this.
const SETTLED: Duration = Duration::from_secs(30);
/// What is idle is watched for so long.
const WATCHED: Duration = Duration::from_secs(30);
/// So many others each node sends a message.
const OTHERS: usize = 4;

/// What was measured.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Nodes.
    pub nodes: usize,
    /// When every node had all bundles that it keeps; `None`: not in time.
    pub all_up: Option<Duration>,
    /// Processor time of a node until then, on average and the most.
    pub work: (Duration, Duration),
    /// Bundles over links, on average and the most at once.
    pub bundles: (f64, usize),
    /// Memory of a node that has nothing to do, in bytes, the most …
    pub memory_bytes: usize,
    /// … and what of it is known of who reaches whom.
    pub mesh_bytes: usize,
    /// Datagrams that a node sends a second while it has nothing to do.
    pub idle_datagrams: f64,
    /// When the last of the messages arrived that each node sent some others all at once; `None`: not in time.
    pub arrived: Option<Duration>,
    /// Events that said that a peer is gone.
    pub losses: u64,
}

/// Measures it for so many nodes.
pub fn measure(nodes: usize) -> Figures {
    let mut many = Many::new(nodes, Some(BUNDLES_MAX), START);
    let all_up = until(&mut many, |many| {
        (0..nodes).all(|host| many.has_all_it_keeps(host))
    });
    let spent: Vec<Duration> = (0..nodes).map(|host| many.work(host)).collect();
    many.run(SETTLED);
    let sent = many.sent;
    many.run(WATCHED);
    let idle = (many.sent - sent) as f64 / nodes as f64 / WATCHED.as_secs_f64();
    let direct = (0..nodes).map(|host| many.node(host).bundle_count().direct);
    let mean = direct.sum::<usize>() as f64 / nodes as f64;
    let most = (0..nodes).map(|host| many.direct_max(host)).max();
    let memory = (0..nodes).map(|host| many.node(host).memory_bytes()).max();
    let mesh = (0..nodes).map(|host| many.node(host).mesh_bytes()).max();
    let mut random = Random::new(nodes as u64);
    for from in 0..nodes {
        for _ in 0..OTHERS {
            let to = (from + 1 + random.below(nodes as u64 - 1) as usize) % nodes;
            many.message(from, to, &[7; 64]);
        }
    }
    let arrived = until(&mut many, |many| {
        let got = (0..nodes).map(|host| many.messages(host));
        got.sum::<u64>() == (nodes * OTHERS) as u64
    });
    Figures {
        nodes,
        all_up,
        work: (
            spent.iter().sum::<Duration>() / nodes as u32,
            spent.iter().copied().max().unwrap_or_default(),
        ),
        bundles: (mean, most.unwrap_or(0)),
        memory_bytes: memory.unwrap_or(0),
        mesh_bytes: mesh.unwrap_or(0),
        idle_datagrams: idle,
        arrived,
        losses: many.losses,
    }
}

/// Runs until something is so, and says how long that took.
fn until(many: &mut Many, is_so: impl Fn(&Many) -> bool) -> Option<Duration> {
    let began = many.age();
    while many.age() - began < PATIENCE {
        many.run(LOOK_EVERY);
        if is_so(many) {
            return Some(many.age() - began);
        }
    }
    None
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Option<Duration>| match time {
            Some(time) => format!("{} ms", time.as_millis()),
            None => format!("not within {} s", PATIENCE.as_secs()),
        };
        let kb = |bytes: usize| bytes / 1000;
        let Figures { nodes, .. } = self;
        writeln!(
            f,
            "{nodes} nodes, {BUNDLES_MAX} bundles at most, all start within {} ms",
            START.as_millis()
        )?;
        writeln!(f, "all have what they keep     {}", ms(self.all_up))?;
        writeln!(
            f,
            "processor time until then   {:.1?} a node, {:.1?} the most",
            self.work.0, self.work.1
        )?;
        writeln!(
            f,
            "bundles over links          {:.1} a node, {} the most",
            self.bundles.0, self.bundles.1
        )?;
        writeln!(
            f,
            "memory of a node            {} KB, {} of it the mesh's",
            kb(self.memory_bytes),
            kb(self.mesh_bytes)
        )?;
        writeln!(
            f,
            "datagrams while idle        {:.1} a second and node",
            self.idle_datagrams
        )?;
        writeln!(
            f,
            "{OTHERS} messages of each node     all there after {}",
            ms(self.arrived)
        )?;
        writeln!(f, "peers lost                  {}", self.losses)
    }
}
