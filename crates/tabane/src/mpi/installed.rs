//! Which MPI a launcher belongs to, and whether it can load a provider of libfabric.

use core::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tabane_lab::cluster::output;

/// Launchers of MPI that are called so, or begin so: of no other the version is asked for.
const LAUNCHERS: [&str; 4] = ["mpirun", "mpiexec", "orterun", "prterun"];
/// The launchers' names: Debian has several MPIs beside each other.
const NAMES: [&str; 6] = [
    "mpirun",
    "mpiexec",
    "mpirun.openmpi",
    "mpiexec.hydra",
    "mpirun.mpich",
    "mpirun.mpich-aux",
];
/// A program that says its version says it by then.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// The kind of an MPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Open MPI.
    OpenMpi,
    /// MPICH, or a derivative that starts ranks with Hydra.
    Mpich,
    /// Intel MPI.
    Intel,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::OpenMpi => "Open MPI",
            Kind::Mpich => "MPICH",
            Kind::Intel => "Intel MPI",
        })
    }
}

/// An MPI of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mpi {
    /// Its kind.
    pub kind: Kind,
    /// Its version, as it says it.
    pub version: String,
    /// Its launcher.
    pub launcher: PathBuf,
    /// What it was built for instead of libfabric, if so.
    pub built_for: Option<String>,
}

impl Mpi {
    /// Why it cannot load a provider, if it cannot, and what to do.
    pub fn obstacle(&self) -> Option<String> {
        let built_for = self.built_for.as_ref()?;
        let (launcher, kind, version) = (self.launcher.display(), self.kind, &self.version);
        Some(format!(
            "{launcher} is {kind} {version}, which was built {built_for} and cannot load a provider of libfabric; \
             take one that can: `pip install mpich`, or Open MPI"
        ))
    }
}

/// The MPI of a launcher, if it is there and says so.
pub fn launcher(named: &Path) -> Option<Mpi> {
    let name = named.file_name()?.to_str()?;
    if !LAUNCHERS.iter().any(|known| name.starts_with(known)) {
        return None;
    }
    let path = match named.components().count() > 1 {
        true => named.to_owned(),
        false => in_path(named)?,
    };
    let mut mpi = identify(path.clone(), &said(&path, "--version")?)?;
    if mpi.kind == Kind::OpenMpi {
        // It has no word on that itself.
        let listed = said(&path.with_file_name("ompi_info"), "--parsable");
        mpi.built_for = listed
            .filter(|it| lacks_ofi(it))
            .map(|_| "without it".into());
    }
    Some(mpi)
}

/// All MPIs that a user finds.
pub fn all() -> Vec<Mpi> {
    let mut found: Vec<Mpi> = Vec::new();
    for mpi in NAMES.iter().filter_map(|name| launcher(Path::new(name))) {
        let is_known = |known: &Mpi| (known.kind, &known.version) == (mpi.kind, &mpi.version);
        if !found.iter().any(is_known) {
            found.push(mpi);
        }
    }
    found
}

fn in_path(name: &Path) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let mut files = std::env::split_paths(&folders).map(|folder| folder.join(name));
    files.find(|file| file.is_file())
}

/// A program's output if it is called with one word.
fn said(program: &Path, word: &str) -> Option<String> {
    let mut command = Command::new(program);
    command.arg(word);
    let said = output(&program.display().to_string(), command, ANSWER_MAX).ok()?;
    said.status
        .success()
        .then(|| String::from_utf8_lossy(&said.stdout).into_owned())
}

/// From a launcher's statement of its version.
fn identify(launcher: PathBuf, said: &str) -> Option<Mpi> {
    let after = |marks: &str| {
        let (_, rest) = said.split_once(marks)?;
        rest.split_whitespace().next().map(str::to_owned)
    };
    let of = |kind, version, built_for| Mpi {
        kind,
        version,
        launcher: launcher.clone(),
        built_for,
    };
    if let Some(version) = after("(Open MPI)") {
        return Some(of(Kind::OpenMpi, version, None));
    }
    if said.contains("Intel(R) MPI") {
        return Some(of(Kind::Intel, after("Version")?, None));
    }
    let version = said.contains("HYDRA").then(|| after("Version:"))??;
    // Its device was chosen by configure; the default is libfabric.
    let device = after("--with-device=").map(|it| it.trim_matches('\'').to_owned());
    let other = device.filter(|device| !device.contains("ofi"));
    Some(of(
        Kind::Mpich,
        version,
        other.map(|it| format!("for {it}")),
    ))
}

/// From what `ompi_info --parsable` lists: there are components for messages, but not the one of libfabric.
fn lacks_ofi(listed: &str) -> bool {
    listed.contains("mca:pml:cm:") && !listed.contains("mca:mtl:ofi:")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(said: &str) -> Option<Mpi> {
        identify("/usr/bin/mpirun".into(), said)
    }

    #[test]
    fn each_says_what_it_is() {
        let open_mpi = of("mpirun (Open MPI) 4.1.4\n\nReport bugs to http://…\n").unwrap();
        assert_eq!(
            (open_mpi.kind, &*open_mpi.version),
            (Kind::OpenMpi, "4.1.4")
        );
        let intel =
            of("Intel(R) MPI Library for Linux* OS, Version 2021.18.1 Build 20260626\n").unwrap();
        assert_eq!((intel.kind, &*intel.version), (Kind::Intel, "2021.18.1"));
        let mpich = "HYDRA build details:\n    Version:      5.0.2\n    Configure options:    \
                     --with-device=ch4:ucx,ofi --with-pm=hydra\n";
        let mpich = of(mpich).unwrap();
        assert_eq!((mpich.kind, &*mpich.version), (Kind::Mpich, "5.0.2"));
        assert_eq!(mpich.obstacle(), None);
        assert_eq!(of("slurm 23.02.7\n"), None);
    }

    #[test]
    fn one_that_was_built_for_something_else_is_named() {
        let said = "HYDRA build details:\n    Version:   4.0.2\n    Configure options:  \
                    '--prefix=/usr' '--with-device=ch4:ucx' 'CFLAGS=-g'\n";
        let obstacle = of(said).unwrap().obstacle().unwrap();
        assert!(obstacle.contains("MPICH 4.0.2, which was built for ch4:ucx and"));
        assert!(obstacle.contains("pip install mpich"));
    }

    #[test]
    fn the_components_of_open_mpi_tell_whether_it_can() {
        let listed = "mca:pml:cm:version:\"mca:2.1.0\"\nmca:mtl:psm2:version:\"mca:2.1.0\"\n";
        assert!(lacks_ofi(listed));
        assert!(!lacks_ofi(&format!(
            "{listed}mca:mtl:ofi:version:\"mca:2.1.0\"\n"
        )));
        // Not a usable answer.
        assert!(!lacks_ofi("ompi_info: unknown option\n"));
    }
}
