//! What stands for this machine in tests.

use core::time::Duration;
use std::cell::Cell;

use tabane_rank::{Endpoint, OpenError, Settings, SharedMemory};

use super::engine;
use crate::environment::{Configuration, Problem};

thread_local! {
    static HAS_KEY: Cell<bool> = const { Cell::new(true) };
    static IS_WANTED: Cell<bool> = const { Cell::new(true) };
    static ENGINES: Cell<Option<SharedMemory>> = const { Cell::new(None) };
    static PATIENCE: Cell<Duration> = const { Cell::new(Duration::from_secs(600)) };
}

/// Within `act`, who calls does not wait for long that somebody listens.
pub fn impatient<R>(act: impl FnOnce() -> R) -> R {
    let before = PATIENCE.replace(Duration::from_millis(100));
    let result = act();
    PATIENCE.set(before);
    result
}

/// Within `act`, there is no key.
pub fn without_key<R>(act: impl FnOnce() -> R) -> R {
    HAS_KEY.set(false);
    let result = act();
    HAS_KEY.set(true);
    result
}

/// Within `act`, no variable of the provider is set.
pub fn unwanted<R>(act: impl FnOnce() -> R) -> R {
    IS_WANTED.set(false);
    let result = act();
    IS_WANTED.set(true);
    result
}

/// Within `act`, engines are as programs have them, at the loopback device.
pub fn with_engines<R>(shared_memory: SharedMemory, act: impl FnOnce() -> R) -> R {
    ENGINES.set(Some(shared_memory));
    let result = act();
    ENGINES.set(None);
    result
}

/// Whether the environment asks for the provider.
pub fn is_wanted() -> bool {
    IS_WANTED.get()
}

/// Two links, and a key.
pub fn configuration() -> Result<Configuration, Problem> {
    if !HAS_KEY.get() {
        return Err(Problem("no key".into()));
    }
    if let Some(shared_memory) = ENGINES.get() {
        let settings = Settings {
            links: vec![(0, [127, 0, 0, 1].into())],
            ports: 49_152..=65_535,
            peer_timeout: Duration::from_secs(3),
            shared_memory,
            ..settings()
        };
        return Ok(Configuration {
            settings,
            stats: false,
        });
    }
    Ok(Configuration {
        settings: settings(),
        stats: false,
    })
}

fn settings() -> Settings {
    Settings {
        links: vec![(0, [10, 77, 0, 1].into()), (1, [10, 77, 1, 1].into())],
        key: [7; 32],
        encrypted: true,
        ports: 40_000..=40_999,
        peer_timeout: PATIENCE.get(),
        eager_bytes: 1 << 15,
        unexpected_bytes: 1 << 20,
        shared_memory: SharedMemory::Pull,
        bundles_max: None,
    }
}

/// An endpoint whose engine is [`engine`]'s.
pub fn open(settings: &Settings) -> Result<Endpoint, OpenError> {
    if ENGINES.get().is_some() {
        return Endpoint::open(settings);
    }
    let (address, core) = engine::make(settings);
    Endpoint::of(address, core)
}
