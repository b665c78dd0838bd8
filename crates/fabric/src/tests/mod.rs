//! The provider, driven through the tables of functions as libfabric and programs do, over an engine that does
//! everything at once, within the process.

mod c_side;
mod connections;
mod engine;
mod getinfo;
pub mod here;
mod killed;
mod messages;
mod objects;
mod operations;
mod program;
mod queues;
mod regions;
