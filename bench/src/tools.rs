//! The programs that are measured and measured with, and the Debian packages that have them.

use tabane_lab::tools::Tool;

pub const CC: Tool = Tool::new("cc", "gcc");
pub const COLLAPSE: Tool = Tool::new("inferno-collapse-perf", "inferno (by cargo)");
pub const CURL: Tool = Tool::new("curl", "curl");
pub const FLAMEGRAPH: Tool = Tool::new("inferno-flamegraph", "inferno (by cargo)");
pub const GANESHA: Tool = Tool::new("ganesha.nfsd", "nfs-ganesha nfs-ganesha-vfs");
pub const MPICC: Tool = Tool::new("mpicc", "libopenmpi-dev");
pub const MPIRUN: Tool = Tool::new("mpirun", "openmpi-bin");
pub const NGINX: Tool = Tool::new("nginx", "nginx-light");
pub const PERF: Tool = Tool::new("perf", "linux-perf");
pub const REDIS_BENCHMARK: Tool = Tool::new("redis-benchmark", "redis-tools");
pub const REDIS_SERVER: Tool = Tool::new("redis-server", "redis-server");
pub const RPCBIND: Tool = Tool::new("rpcbind", "rpcbind");
pub const RSYNC: Tool = Tool::new("rsync", "rsync");
pub const SSH: Tool = Tool::new("ssh", "openssh-client");
pub const SSHD: Tool = Tool::new("sshd", "openssh-server");
pub const SSH_KEYGEN: Tool = Tool::new("ssh-keygen", "openssh-client");
pub const MPTCPIZE: Tool = Tool::new("mptcpize", "mptcpize");
