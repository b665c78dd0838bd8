#!/usr/bin/env bash
# `make release`: all that a release has, into TARGET-DIRECTORY/release-VERSION, with SHA256SUMS.
#
#   tools/release.sh TARGET-DIRECTORY
#   SKIP='arm64 static-arm64'   parts that are not made; else one that cannot be made is a failure
#
# Parts: source, amd64 and arm64 (deb and rpm), static-amd64, static-arm64.
# It builds the last commit, not the work tree. So that the same commit, compiler and C library
# make the same bytes, times are the commit's, and places of this machine are left out.
# Parts are called by name.
# shellcheck disable=SC2317
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:$HOME/.cargo/bin:/usr/local/sbin:/usr/sbin:/sbin"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
cargo_home=${CARGO_HOME:-$HOME/.cargo}
export SOURCE_DATE_EPOCH TZ=UTC LC_ALL=C.UTF-8
# A directory of its own: other flags would have `make build` build everything again.
export CARGO_TARGET_DIR=$1/reproducible
source=$CARGO_TARGET_DIR/source
# The source is in it, as /build/source.
places="-ffile-prefix-map=$cargo_home=/cargo -ffile-prefix-map=$CARGO_TARGET_DIR=/build"
export CFLAGS="$places" RUSTFLAGS="${places//-ffile-prefix-map/--remap-path-prefix}"
umask 022

# As if just written, or cargo would take what an earlier commit left to be newer.
rm -rf "$source"
mkdir -p "$source"
git archive HEAD | tar --extract --touch --directory "$source"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$source/Cargo.toml")
output=$1/release-$version

# archive NAME DIRECTORY: NAME.tar.gz of DIRECTORY's content, below NAME/.
archive() {
    tar --create --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
        --transform "s|^\.|$1|" --directory "$2" . | gzip -9n >"$output/$1.tar.gz"
}

source_archive() {
    local name=tabane-$version
    git archive --prefix "$name/" HEAD | gzip -9n >"$output/$name.tar.gz"
}

packages() {
    make --no-print-directory --directory "$source" RUST_TARGET="$1" PACKAGES="$output" deb rpm
}

static() {
    local name=tabane-$version-linux-$2-static tree
    make --no-print-directory --directory "$source" STATIC_TARGET="$1" static
    tree=$(mktemp -d)
    cp "$CARGO_TARGET_DIR"/static/{tabane,tabane.service,THIRD-PARTY} "$source"/{LICENSE-*,dist/cluster.example.toml} "$tree"
    "$3" --strip-unneeded "$tree/tabane"
    chmod 755 "$tree"
    archive "$name" "$tree"
    rm -r "$tree"
}

# part NAME COMMAND…: goes on without it, and says so in the end. By a shell of its own, whose
# first error ends it.
missing='' skipped=''
part() {
    local name=$1 status
    shift
    case " ${SKIP-} " in *" $name "*) skipped="$skipped $name"; return ;; esac
    printf '\n== %s\n' "$name"
    set +e
    (set -e; "$@")
    status=$?
    set -e
    [ "$status" = 0 ] || missing="$missing $name"
}

tools/setup.sh release
rm -rf "$output"
mkdir -p "$output"
part source source_archive
part amd64 packages x86_64-unknown-linux-gnu
part arm64 packages aarch64-unknown-linux-gnu
part static-amd64 static x86_64-unknown-linux-musl amd64 strip
part static-arm64 static aarch64-unknown-linux-musl arm64 aarch64-linux-gnu-strip
(cd "$output" && sha256sum -- *.* >SHA256SUMS && cat SHA256SUMS)
echo "release: $output"

[ -z "$skipped" ] || echo "release: as it was told, without$skipped" >&2
[ -z "$missing" ] || {
    echo "release: could not make$missing" >&2
    exit 1
}
