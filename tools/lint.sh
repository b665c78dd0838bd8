#!/usr/bin/env bash
# `make lint`: every check, also after one has failed.
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:$HOME/.cargo/bin"
failed=0 passed=0 unchecked=0

# Exit code 77: could not be checked here, which is said, and is no failure.
check() {
    local name=$1
    shift
    printf '\n== %s\n' "$name"
    "$@"
    case $? in
        0) passed=$((passed + 1)) ;;
        77) unchecked=$((unchecked + 1)) ;;
        *)
            failed=$((failed + 1))
            echo "lint: $name failed" >&2
            ;;
    esac
}

check 'clippy' cargo clippy --quiet --workspace --all-targets -- -D warnings
check 'documentation' env RUSTDOCFLAGS='-D warnings -A rustdoc::private_intra_doc_links' cargo doc --quiet --workspace --no-deps --document-private-items
check 'formatting' cargo fmt --all --check
check 'dependencies' cargo deny --log-level error check bans licenses sources
check 'known vulnerabilities of dependencies' tools/audit.sh
check 'rules of the house' tools/tidy.sh

printf '\nlint: %s passed, %s not checked, %s failed\n' "$passed" "$unchecked" "$failed"
[ "$failed" = 0 ]
