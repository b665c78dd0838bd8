#!/usr/bin/env bash
# `make fuzz`: each target of fuzz/ (or those in FUZZ_TARGETS) for FUZZ_SECONDS,
# with libFuzzer. Stable Rust suffices: RUSTC_BOOTSTRAP lets it use the sanitizers' options.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:$HOME/.cargo/bin"
FUZZ_SECONDS=${FUZZ_SECONDS:-60}
if ! command -v cargo-fuzz >/dev/null; then
    echo "fuzz: installing cargo-fuzz, once" >&2
    cargo install --locked cargo-fuzz
fi
export RUSTC_BOOTSTRAP=1
for target in ${FUZZ_TARGETS:-$(cargo fuzz list)}; do
    printf '\n== %s, %s s\n' "$target" "$FUZZ_SECONDS"
    corpus=("fuzz/corpus/$target")
    mkdir -p "${corpus[0]}"
    [ ! -d "fuzz/seeds/$target" ] || corpus+=("fuzz/seeds/$target")
    cargo fuzz run "$target" "${corpus[@]}" -- -max_total_time="$FUZZ_SECONDS" \
        -timeout=10 -rss_limit_mb=2048 -print_final_stats=1
done
