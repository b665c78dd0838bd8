//! Who is measured: a way, by this build of tabane, or by another one beside it.

use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use super::Settings;
use tabane_lab::cluster::Wire;
use tabane_lab::ways::{Arena, Way};
use tabane_lab::{LabConfig, LabError};

/// Behind the name of whatever is of the other build.
pub const BESIDE: &str = " (beside)";

/// Which build of tabane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Build {
    /// The one that all goals are of.
    Own,
    /// The one that is compared with it: of `--beside`.
    Beside,
}

impl Build {
    /// What goes behind a name.
    pub fn mark(self) -> &'static str {
        match self {
            Build::Own => "",
            Build::Beside => BESIDE,
        }
    }
}

impl fmt::Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tabane{}", self.mark())
    }
}

/// The programs of a build.
#[derive(Debug, Clone)]
pub struct Programs {
    /// The program `tabane`.
    pub tabane: PathBuf,
    /// The program `bench`, which has the library in it.
    pub bench: Option<PathBuf>,
}

/// A way by a build; of ways without tabane there is only [`Build::Own`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entrant {
    /// How bytes travel.
    pub way: Way,
    /// By which build.
    pub build: Build,
}

impl Entrant {
    /// Whether goals are stated for it, as far as its way has some.
    pub fn is_own(self) -> bool {
        self.build == Build::Own
    }
}

impl fmt::Display for Entrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.way, self.build.mark())
    }
}

/// A lab on which an entrant can be measured.
#[derive(Debug)]
pub struct Stand {
    /// Whose it is.
    pub entrant: Entrant,
    /// The program that runs on the nodes as a helper.
    pub helper: PathBuf,
    arena: Arena,
}

impl Deref for Stand {
    type Target = Arena;

    fn deref(&self) -> &Arena {
        &self.arena
    }
}

impl Settings {
    /// All builds that are measured.
    pub fn builds(&self) -> impl Iterator<Item = Build> + use<> {
        let beside = self.beside.is_some().then_some(Build::Beside);
        [Build::Own].into_iter().chain(beside)
    }

    /// The program `tabane` of a build.
    pub fn tabane(&self, build: Build) -> &Path {
        match (&self.beside, build) {
            (Some(beside), Build::Beside) => &beside.tabane,
            _ => &self.tabane,
        }
    }

    /// These ways, each by every build that has it.
    pub fn entrants(&self, ways: &[Way]) -> Vec<Entrant> {
        let beside = |way: Way| match way {
            Way::Tabane(_) | Way::Run(_) | Way::Steered => self.beside.is_some(),
            Way::Library { .. } => self.beside.as_ref().is_some_and(|it| it.bench.is_some()),
            Way::Tcp { .. } | Way::Mptcp | Way::BalanceRr | Way::Babel => false,
        };
        let entrant = |way: &Way| {
            let (way, build) = (*way, Build::Own);
            let other = Entrant {
                way,
                build: Build::Beside,
            };
            [Entrant { way, build }]
                .into_iter()
                .chain(beside(way).then_some(other))
        };
        ways.iter().flat_map(entrant).collect()
    }

    /// A lab for an entrant.
    ///
    /// # Errors
    /// As [`Arena::up`].
    pub fn stand(&self, entrant: Entrant, config: &LabConfig) -> Result<Stand, LabError> {
        let arena = Arena::up(entrant.way, config, self.tabane(entrant.build))?;
        Ok(self.stand_on(entrant, arena))
    }

    /// As [`Settings::stand`], for tabane over links that lose much: [`Arena::connected`].
    ///
    /// # Errors
    /// As [`Arena::connected`].
    pub fn connected(
        &self,
        wire: Wire,
        build: Build,
        config: &LabConfig,
    ) -> Result<Stand, LabError> {
        let way = Way::Tabane(wire);
        let arena = Arena::connected(wire, config, self.tabane(build))?;
        Ok(self.stand_on(Entrant { way, build }, arena))
    }

    /// As [`Settings::stand`]; `None`: this machine cannot do the way, which is told on standard error.
    ///
    /// # Errors
    /// tabane itself cannot be set up.
    pub fn stand_if_possible(
        &self,
        entrant: Entrant,
        config: &LabConfig,
    ) -> Result<Option<Stand>, LabError> {
        match self.stand(entrant, config) {
            Ok(stand) => Ok(Some(stand)),
            Err(error @ (LabError::MissingTool { .. } | LabError::MissingFeature { .. }))
                if matches!(entrant.way, Way::Mptcp | Way::BalanceRr | Way::Babel) =>
            {
                eprintln!("bench: {entrant} is left out: {error}");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn stand_on(&self, entrant: Entrant, arena: Arena) -> Stand {
        let other = match (entrant.way, entrant.build, &self.beside) {
            (Way::Library { .. }, Build::Beside, Some(beside)) => beside.bench.as_ref(),
            _ => None,
        };
        Stand {
            entrant,
            helper: other.unwrap_or(&self.helper).clone(),
            arena,
        }
    }

    /// A lab for each of these ways and builds; those this machine cannot do are told on
    /// standard error and left out.
    ///
    /// # Errors
    /// tabane itself cannot be set up.
    pub fn stands(&self, ways: &[Way], config: &LabConfig) -> Result<Vec<Stand>, LabError> {
        let mut stands = Vec::new();
        for entrant in self.entrants(ways) {
            stands.extend(self.stand_if_possible(entrant, config)?);
        }
        Ok(stands)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(beside: Option<Programs>) -> Settings {
        Settings {
            rounds: 1,
            times: 1,
            seconds: 1.0,
            line_mbit: 1000,
            tabane: "new/tabane".into(),
            helper: "new/bench".into(),
            beside,
        }
    }

    #[test]
    fn every_way_of_tabane_enters_with_both_builds_in_turn() {
        let wire = Wire::Encrypted;
        let library = Way::Library { wire, spins: true };
        let ways = [Way::Mptcp, Way::Tabane(wire), library];
        let names = |settings: &Settings| -> Vec<String> {
            let entrants = settings.entrants(&ways).into_iter();
            entrants.map(|entrant| entrant.to_string()).collect()
        };
        let alone = ["MPTCP", "tabane, encrypted", "library, encrypted"];
        assert_eq!(names(&settings(None)), alone);
        let mut programs = Programs {
            tabane: "old/tabane".into(),
            bench: None,
        };
        let both = settings(Some(programs.clone()));
        assert_eq!(both.tabane(Build::Beside), Path::new("old/tabane"));
        assert_eq!(names(&both)[2], "tabane, encrypted (beside)");
        assert_eq!(names(&both).len(), 4);
        programs.bench = Some("old/bench".into());
        let both = settings(Some(programs));
        assert_eq!(names(&both)[4], "library, encrypted (beside)");
    }
}
