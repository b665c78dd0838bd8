//! One stream between bench's own programs, for ways that iperf3 does not know; judged as
//! [`iperf`](super::iperf) is.

use std::time::Duration;

use super::Stand;
use super::helper::{Pair, target};
use super::iperf::{Load, Outcome};
use super::machine::Processors;
use super::timeline::{Sent, Timeline};
use tabane_lab::LabError;

/// Run it once.
///
/// # Errors
/// A program does not start or hangs; a stream that breaks is such a failure.
pub fn run(stand: &Stand, load: Load) -> Result<Outcome, LabError> {
    let lasting = Duration::from_secs_f64(load.seconds + load.omit_s);
    let ms = lasting.as_millis().to_string();
    let careless = || "--careless".to_owned();
    let before = Processors::now()?;
    let timelines = if load.both_ways {
        let to = format!("--to={}", target(stand, 1));
        let client = ("exchange", &[ms.clone(), to, careless()][..]);
        let server = ("exchange", &[ms, careless()][..]);
        let (back, there): (Timeline, Timeline) = Pair::begin(stand, client, server)?.results()?;
        [there, back]
    } else {
        let client = ("send", &[target(stand, 1), ms, careless()][..]);
        let server = ("receive", &[careless()][..]);
        let (_, there): (Sent, Timeline) = Pair::begin(stand, client, server)?.results()?;
        [there, Timeline::default()]
    };
    let busy_s = Processors::now()?.busy_s_since(before);
    let broken = timelines.iter().find_map(|timeline| timeline.error.clone());
    let nothing = (timelines[0].bytes == 0).then(|| "nothing came".to_owned());
    if let Some(message) = broken.or(nothing) {
        return Err(LabError::ToolFailed {
            tool: "bench helper",
            place: format!("n1 ({})", stand.entrant),
            message,
        });
    }
    let [there, back] = timelines;
    let total_bytes = there.bytes + back.bytes;
    Ok(Outcome {
        gbps: there.gbps_within(load.omit_s, load.seconds),
        back_gbps: back.gbps_within(load.omit_s, load.seconds),
        retransmits: 0,
        cpu_s_per_gb: busy_s / (total_bytes as f64 / 1e9),
    })
}
