#!/usr/bin/env bash
# `make rpm`: RPM packages out of what is built, as dist/rpm/tabane.spec cuts them.
#
#   tools/rpm.sh PROGRAM DIRECTORY [TARGET]
#
# The same words and variables as of tools/deb.sh.
set -euo pipefail
program=$(realpath "$1") output=$2 target=${3:-$(uname -m)}
cd "$(dirname "$0")/.."
mkdir -p "$output"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

architecture=${target%%-*} strip=strip
[ "$architecture" = "$(uname -m)" ] || strip=$architecture-linux-gnu-strip
tools/licences.py ${3:+"$3"} >"$scratch/THIRD-PARTY"
definitions=(
    "_topdir $scratch"
    "version $(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)"
    "source $PWD"
    "program $program"
    "third_party $scratch/THIRD-PARTY"
    "strip $strip"
    # The same bytes from the same commit, wherever and whenever it is built.
    '_buildhost localhost'
    'use_source_date_epoch_as_buildtime 1'
    'clamp_mtime_to_source_date_epoch 1'
    'source_date_epoch_from_changelog 0'
    # Also older ones of rpm read it.
    '_binary_payload w6.xzdio'
)
defined=()
for definition in "${definitions[@]}"; do defined+=(--define "$definition"); done
export RUNNER=${RUNNER-}
rpmbuild -bb --target "$architecture-linux" "${defined[@]}" dist/rpm/tabane.spec >"$scratch/log" 2>&1 || {
    cat "$scratch/log" >&2
    exit 1
}
cp "$scratch"/RPMS/*/*.rpm "$output"
(cd "$output" && ls -- *.rpm)
