//! Finding figures in a report.

use crate::entrant::BESIDE;
use crate::{Cell, Report, Samples, Table};

/// The figures of a run.
pub struct Figures<'a>(pub &'a Report);

/// Who a figure is of; each has a colour of its own in every picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Tcp,
    Mptcp,
    BalanceRr,
    Encrypted,
    Plain,
    Run,
    Library,
}

impl Who {
    /// In the order of a legend.
    pub const ALL: [Who; 7] = [
        Who::Tcp,
        Who::Mptcp,
        Who::BalanceRr,
        Who::Encrypted,
        Who::Plain,
        Who::Run,
        Who::Library,
    ];

    /// Whether it is tabane.
    pub fn is_own(self) -> bool {
        !matches!(self, Who::Tcp | Who::Mptcp | Who::BalanceRr)
    }

    /// From the name of a way, with or without a congestion control behind it. One that waits asleep is
    /// not drawn, nor another build.
    pub fn of(way: &str) -> Option<Who> {
        let rest = |who: &Who| way.strip_prefix(who.name());
        let is_other = |rest: &str| rest.starts_with(", no spin") || rest.starts_with(BESIDE);
        let is_named = |who: &Who| rest(who).is_some_and(|rest| !is_other(rest));
        Who::ALL.into_iter().find(is_named)
    }

    /// In a legend.
    pub fn name(self) -> &'static str {
        match self {
            Who::Tcp => "TCP, one link",
            Who::Mptcp => "MPTCP",
            Who::BalanceRr => "balance-rr",
            Who::Encrypted => "tabane, encrypted",
            Who::Plain => "tabane, plain",
            Who::Run => "tabane run, encrypted",
            Who::Library => "library, encrypted",
        }
    }

    /// Its class in a picture's style, and its name.
    pub fn legend(self) -> (&'static str, &'static str) {
        (self.class(), self.name())
    }

    /// Its class in a picture's style.
    pub fn class(self) -> &'static str {
        match self {
            Who::Tcp => "tcp",
            Who::Mptcp => "mptcp",
            Who::BalanceRr => "rr",
            Who::Encrypted => "enc",
            Who::Plain => "plain",
            Who::Run => "run",
            Who::Library => "lib",
        }
    }
}

impl Figures<'_> {
    /// The tables of this title.
    pub fn tables(&self, title: &str) -> impl Iterator<Item = &Table> {
        let title = title.to_owned();
        self.0
            .tables
            .iter()
            .filter(move |table| table.title == title)
    }

    /// One column of the tables of this title: who, and the figure. Of several
    /// congestion controls it is cubic's.
    pub fn by_way(&self, title: &str, column: &str) -> Vec<(Who, &Samples)> {
        let rows = self.tables(title).flat_map(|table| {
            let at = position(table, column);
            table
                .rows
                .iter()
                .filter_map(move |row| Some((row.first()?, row.get(at?)?)))
        });
        let cubic = rows.filter_map(|(way, figure)| {
            let name = way.to_string();
            let samples = samples(figure).filter(|_| !name.ends_with(", bbr"))?;
            Some((Who::of(&name)?, samples))
        });
        cubic.collect()
    }
}

/// The number of a column.
pub fn position(table: &Table, column: &str) -> Option<usize> {
    table.columns.iter().position(|name| name == column)
}

/// What a cell measured, if it did.
pub fn samples(cell: &Cell) -> Option<&Samples> {
    match cell {
        Cell::Samples(samples) if samples.median().is_some() => Some(samples),
        _ => None,
    }
}
