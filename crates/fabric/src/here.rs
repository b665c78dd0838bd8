//! What this machine and process have: the part that tests put something else in place of.

#[cfg(not(test))]
pub use real::{configuration, is_wanted, open};

#[cfg(test)]
pub use crate::tests::here::{configuration, is_wanted, open};

#[cfg(not(test))]
mod real {
    use std::path::Path;

    use tabane_rank::{Endpoint, OpenError, Settings};

    use crate::environment::{self, Configuration, Problem};
    use crate::log;

    pub use crate::environment::is_wanted;

    /// What the environment makes of this node's links.
    ///
    /// # Errors
    /// One line that says what is wrong.
    pub fn configuration() -> Result<Configuration, Problem> {
        let interfaces = tabane_io::netlink::interfaces().map_err(|error| {
            Problem(format!(
                "the devices of this node cannot be listed: {error}"
            ))
        })?;
        let cluster_file = Path::new(tabane_cluster::DEFAULT_PATH);
        let (configuration, odd) =
            environment::configure(&environment::variable, &interfaces, cluster_file)?;
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
