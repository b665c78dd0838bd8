//! What jobs of MPI would meet.

use super::*;
use crate::doctor::facts::MpiFacts;
use crate::mpi::installed::{Kind, Mpi};

fn said(mpi: MpiFacts) -> Vec<(Cause, Severity)> {
    let facts = Facts { mpi, ..healthy() };
    let found = judge(&facts);
    found.iter().map(|f| (f.cause, f.severity)).collect()
}

fn installed(built_for: Option<&str>) -> Mpi {
    Mpi {
        kind: Kind::Mpich,
        version: "4.0.2".into(),
        launcher: "/usr/bin/mpirun".into(),
        built_for: built_for.map(Into::into),
    }
}

#[test]
fn an_mpi_that_cannot_load_the_provider_is_noted() {
    let mpi = MpiFacts {
        installed: vec![installed(Some("for ch4:ucx")), installed(None)],
        ..MpiFacts::default()
    };
    assert_eq!(said(mpi), [(Cause::MpiUnsuited, Severity::Note)]);
}

#[test]
fn what_keeps_jobs_from_starting_matters_as_much_as_they_are_wanted() {
    let trouble = |installed: &[Mpi], is_wanted| {
        said(MpiFacts {
            installed: installed.to_vec(),
            trouble: Some("TABANE_LINKS=eth7: nothing of it is here".into()),
            is_wanted,
        })
    };
    let here = [installed(None)];
    let cause = Cause::MpiNotReady;
    assert_eq!(trouble(&here, false), [(cause, Severity::Note)]);
    assert_eq!(trouble(&here, true), [(cause, Severity::Degraded)]);
    assert_eq!(trouble(&[], true), [(cause, Severity::Degraded)]);
    assert_eq!(trouble(&[], false), []);
}
