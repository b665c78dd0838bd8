//! The machine and process: the part that tests replace.

#[cfg(not(test))]
pub use real::{configuration, is_wanted, open};

#[cfg(test)]
pub use crate::tests::here::{configuration, is_wanted, open};

#[cfg(not(test))]
mod real {
    use tabane_rank::{Endpoint, OpenError, Settings};

    use crate::environment::{self, Configuration, Problem};
    use crate::log;

    pub use crate::environment::is_wanted;

    /// This node's links, from the environment.
    ///
    /// # Errors
    /// One line that says what is wrong.
    pub fn configuration() -> Result<Configuration, Problem> {
        let (configuration, odd) = tabane_rank::environment::here(&environment::variable)?;
        for Problem(line) in odd {
            log::warn(&line);
        }
        Ok(configuration)
    }

    /// Makes an endpoint.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(settings: &Settings) -> Result<Endpoint, OpenError> {
        Endpoint::open(settings)
    }
}
