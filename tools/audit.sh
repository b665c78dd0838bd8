#!/usr/bin/env bash
# Known vulnerabilities of dependencies, by the RustSec advisory database, which
# cargo-deny fetches from GitHub or, if that is out of reach, takes as it was
# fetched before (no older than cargo-deny allows).
#
# Exit code 0: none is known; 1: some are; 77: there is no database, so nothing
# was checked.
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:$HOME/.cargo/bin"
FETCH_SECONDS_MAX=60

if timeout "$FETCH_SECONDS_MAX" cargo deny --log-level off fetch db 2>/dev/null; then
    offline=()
elif compgen -G "${CARGO_HOME:-$HOME/.cargo}/advisory-dbs/*/crates" >/dev/null; then
    echo 'audit: the advisory database cannot be fetched; using the copy that is here' >&2
    offline=(--offline)
else
    echo 'audit: NOT CHECKED: the advisory database is not here and cannot be fetched (github.com/RustSec/advisory-db)' >&2
    exit 77
fi
cargo deny "${offline[@]}" --log-level error check advisories
