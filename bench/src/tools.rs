//! The programs that are measured and measured with, and the Debian packages that have them.

use tabane_lab::tools::Tool;

pub const CURL: Tool = Tool::new("curl", "curl");
pub const HAPROXY: Tool = Tool::new("haproxy", "haproxy");
pub const NFT: Tool = Tool::new("nft", "nftables");
pub const NGINX: Tool = Tool::new("nginx", "nginx-light");
pub const REDIS_BENCHMARK: Tool = Tool::new("redis-benchmark", "redis-tools");
pub const REDIS_SERVER: Tool = Tool::new("redis-server", "redis-server");
pub const SSHD: Tool = Tool::new("sshd", "openssh-server");
pub const TC: Tool = Tool::new("tc", "iproute2");
pub const WRK: Tool = Tool::new("wrk", "wrk");
