//! Whether this daemon serves metrics, and where.

use std::net::SocketAddr;

use tabane_cluster::Cluster;
use tabane_io::sockets::{Audience, Sockets};

use crate::log;
use crate::metrics::MetricsServer;
use crate::status;

/// Serves the metrics of node `me`, if they are configured.
pub(super) fn serve_own_metrics(
    cluster: &Cluster,
    me: usize,
    is_for_all: bool,
) -> Result<Option<MetricsServer>, String> {
    let address = cluster.metrics_of(me).filter(|_| is_for_all);
    let serve = |address| serve_metrics(address, &cluster.nodes[me].name);
    address.map(serve).transpose()
}

/// Serves the metrics of the node `own_name`.
pub(super) fn serve_metrics(address: SocketAddr, own_name: &str) -> Result<MetricsServer, String> {
    let ask = || status::ask_report(&Sockets::of(Audience::Everybody));
    MetricsServer::start(address, own_name, ask, log::line)
        .map_err(|e| format!("cannot serve metrics: {e}"))
}
