#!/usr/bin/env bash
# Where the processor's time goes while one TCP stream runs over tab0: a flame
# graph and a table for 2 links of 1 Gb/s and for links without a line rate,
# encrypted and plain. As root, on a machine that does nothing else.
#
#   tools/flamegraph.sh DIR [OPTION OF BENCH…]
#
# DIR gets flamegraph-*.svg, the stacks they are made of (*.folded), and the
# table in bench.md.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:$HOME/.cargo/bin:/usr/local/sbin:/usr/sbin:/sbin"

[ $# -ge 1 ] || { echo "usage: tools/flamegraph.sh DIR [OPTION OF BENCH…]" >&2; exit 2; }
out=$1
shift

tools/setup.sh bench
if ! command -v inferno-flamegraph >/dev/null; then
    echo "flamegraph: installing inferno; this takes some minutes, once" >&2
    cargo install --locked --quiet inferno
fi

# Without frame pointers perf does not see who called whom. Their build has a
# place of its own, not to spoil the usual one.
target=${CARGO_TARGET_DIR:-target}/flamegraph
CARGO_TARGET_DIR=$target RUSTFLAGS="${RUSTFLAGS-} -C force-frame-pointers=yes" \
    cargo build --quiet --release -p tabane
cargo build --quiet --release -p tabane-bench --bin bench
"${CARGO_TARGET_DIR:-target}/release/bench" --only profile \
    --tabane "$target/release/tabane" --out "$out" "$@"
