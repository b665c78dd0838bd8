//! Machines of one network that find each other before there is a cluster file: what they say (`words`), on which networks
//! (`network`), who asks (`ask`) and who answers (`answer`), what cluster follows from it (`links`), and what a person says to
//! that (`confirm`).

pub mod answer;
pub mod ask;
mod confirm;
pub mod links;
mod network;
pub mod words;
