#!/usr/bin/env bash
# `make fuzz`: each target of fuzz/ (or those in FUZZ_TARGETS) for FUZZ_SECONDS,
# with libFuzzer. Stable Rust suffices: RUSTC_BOOTSTRAP lets it use the sanitizers' options.
#
#   tools/fuzz.sh --keep    afterwards add what reaches something new to fuzz/seeds
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:$HOME/.cargo/bin"
FUZZ_SECONDS=${FUZZ_SECONDS:-60}
# Seeds are read in every `make test`: small ones only.
SEED_BYTES_MAX=4096
if ! command -v cargo-fuzz >/dev/null; then
    echo "fuzz: installing cargo-fuzz, once" >&2
    cargo install --locked cargo-fuzz
fi
export RUSTC_BOOTSTRAP=1
crate=(--fuzz-dir fuzz/libfuzzer)
for target in ${FUZZ_TARGETS:-$(cargo fuzz list "${crate[@]}")}; do
    printf '\n== %s, %s s\n' "$target" "$FUZZ_SECONDS"
    corpus=fuzz/corpus/$target
    seeds=fuzz/seeds/$target
    mkdir -p "$corpus" "$seeds"
    cargo fuzz run "${crate[@]}" "$target" "$corpus" "$seeds" -- -max_total_time="$FUZZ_SECONDS" \
        -timeout=10 -rss_limit_mb=2048 -print_final_stats=1
    if [ "${1-}" = --keep ]; then
        cargo fuzz run "${crate[@]}" "$target" "$seeds" "$corpus" -- -merge=1 -max_len="$SEED_BYTES_MAX"
    fi
done
