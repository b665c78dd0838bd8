#!/usr/bin/env bash
# `make lint`: every check, also after one has failed.
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:$HOME/.cargo/bin"
failed=0 passed=0

check() {
    local name=$1
    shift
    printf '\n== %s\n' "$name"
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "lint: $name failed" >&2
    fi
}

check 'clippy' cargo clippy --quiet --workspace --all-targets -- -D warnings
check 'documentation' env RUSTDOCFLAGS='-D warnings -A rustdoc::private_intra_doc_links' cargo doc --quiet --workspace --no-deps --document-private-items
check 'formatting' cargo fmt --all --check
check 'dependencies' cargo deny --log-level error check bans licenses sources
check 'rules of the house' tools/tidy.sh

printf '\nlint: %s passed, %s failed\n' "$passed" "$failed"
[ "$failed" = 0 ]
