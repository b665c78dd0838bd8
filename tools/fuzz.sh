#!/usr/bin/env bash
# `make fuzz`: each target of fuzz/ for FUZZ_SECONDS, with libFuzzer. Stable
# Rust suffices: RUSTC_BOOTSTRAP lets it use the sanitizers' options.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:$HOME/.cargo/bin"
FUZZ_SECONDS=${FUZZ_SECONDS:-60}
[ -d fuzz ] || { echo "there is nothing to fuzz yet" >&2; exit 1; }
if ! command -v cargo-fuzz >/dev/null; then
    echo "fuzz: installing cargo-fuzz, once" >&2
    cargo install --locked cargo-fuzz
fi
export RUSTC_BOOTSTRAP=1
for target in $(cargo fuzz list); do
    printf '\n== %s, %s s\n' "$target" "$FUZZ_SECONDS"
    mkdir -p "fuzz/corpus/$target"
    cargo fuzz run "$target" "fuzz/corpus/$target" "fuzz/seeds/$target" -- -max_total_time="$FUZZ_SECONDS" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1
done
