//! `tabane doctor` in the lab: each cause is put in force, and it is named; on a
//! healthy cluster nothing is.

#[path = "../common/mod.rs"]
mod common;
mod diagnosis;
mod healthy;
mod host;
mod joint;
mod outside;
mod quality;
mod reach;
