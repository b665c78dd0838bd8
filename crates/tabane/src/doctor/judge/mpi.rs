//! Jobs of MPI: whether they could run over all links from here.

use crate::doctor::facts::Facts;
use crate::doctor::finding::{Cause, Finding, Severity};

pub fn judge(facts: &Facts, found: &mut Vec<Finding>) {
    let mpi = &facts.mpi;
    if mpi.installed.is_empty() && !mpi.is_wanted {
        return;
    }
    found.extend(mpi.trouble.as_deref().map(|why| {
        // Not a problem for those who do not want MPI.
        let severity = match mpi.is_wanted {
            true => Severity::Degraded,
            false => Severity::Note,
        };
        Finding::new(
            Cause::MpiNotReady,
            severity,
            "Jobs of MPI do not start here over all links",
        )
        .seen(why)
        .costs(0.0, "`tabane mpi` starts no rank on this machine")
        .mend("what the line above says; then `tabane mpi --print` shows what ranks will find")
    }));
    let obstacles = mpi.installed.iter().filter_map(|mpi| mpi.obstacle());
    found.extend(obstacles.map(|why| {
        Finding::new(
            Cause::MpiUnsuited,
            Severity::Note,
            "An MPI of this machine cannot use all links",
        )
        .seen(why)
        .costs(0.0, "its jobs go over one link, as ever")
        .mend("`pip install mpich`, or Open MPI (`apt install openmpi-bin`), and `tabane mpi -- mpirun …`")
    }));
}
