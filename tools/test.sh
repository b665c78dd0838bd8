#!/usr/bin/env bash
# `make test`: every test of the workspace, those that build a lab once more as
# an ordinary user, the documentation's examples, and the simulator's fault
# schedules. Goes on after a failure, to show all of them; the last line counts.
#
#   SCHEDULES=10000   how many fault schedules the simulator runs
#   SEED=0            the first one's seed
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:$HOME/.cargo/bin:/usr/local/sbin:/usr/sbin:/sbin"
SCHEDULES=${SCHEDULES:-10000}
SEED=${SEED:-0}
# The crates whose tests meet the system: namespaces, devices, sockets.
# A test that hangs is a failure, not the end of the machine's lease.
STEP_MAX=20m
SYSTEM_CRATES='crates/capi crates/cluster crates/library crates/io crates/engine crates/tabane lab'
TARGETS=(--lib --bins --tests --examples)

scratch=$(mktemp -d)
chmod 755 "$scratch"
trap 'rm -rf "$scratch"' EXIT
log=$scratch/log
failed_steps=''

heading() { printf '\n== %s\n' "$*"; }

# step NAME COMMAND…: runs it, keeps its output for the count, notes a failure.
step() {
    local name=$1
    shift
    heading "$name"
    "$@" 2>&1 </dev/null | tee -a "$log"
    local status=${PIPESTATUS[0]}
    if [ "$status" != 0 ]; then
        failed_steps="$failed_steps
  $name (exit code $status)"
    fi
    return "$status"
}

# Lines "PROGRAM DIRECTORY" of the system crates' test programs. Cargo runs a
# test in its package's directory, so the same is done here.
system_test_programs() {
    local program directory
    cargo test --quiet --workspace "${TARGETS[@]}" --no-run --message-format=json 2>/dev/null |
        sed -n 's/.*"manifest_path":"\([^"]*\)\/Cargo.toml".*"profile":{[^}]*"test":true}.*"executable":"\([^"]*\)".*/\2 \1/p' |
        while read -r program directory; do
            case " $SYSTEM_CRATES " in
                *" ${directory#"$PWD"/} "*) echo "$program $directory" ;;
            esac
        done
}

as_ordinary_user() {
    local program directory status=0
    system_test_programs >"$scratch/programs"
    [ -s "$scratch/programs" ] || { echo "no test programs were found"; return 1; }
    while read -r program directory <&3; do
        echo "     Running $(basename "$program") as nobody"
        bounded tools/as-nobody.sh "$PWD" "$program" "$directory" || status=1
    done 3<"$scratch/programs"
    return $status
}

bounded() { timeout --kill-after=30s "$STEP_MAX" "$@"; }

# Tests run the examples, as a reader of them would.
step 'examples' bounded cargo build --quiet --workspace --examples
step 'tests' bounded cargo test --workspace --no-fail-fast "${TARGETS[@]}"
step 'documentation examples' bounded cargo test --workspace --no-fail-fast --doc
if [ "$(id -u)" = 0 ]; then
    step 'tests with a lab, as an ordinary user' as_ordinary_user
else
    heading 'tests ran as an ordinary user only; as root they would run both ways'
fi
step "simulator: $SCHEDULES fault schedules" \
    bounded cargo run --quiet --release -p tabane-sim --bin sim -- \
    run --seeds "$SEED..$((SEED + SCHEDULES))"

step 'simulator: more links are never slower than the best one' \
    bounded cargo run --quiet --release -p tabane-sim --bin sim -- snapshot

# "test result: ok. 12 passed; 0 failed; …" of each test program, and
# "10000 passed, 0 failed" of the simulator.
read -r passed failed schedules <<<"$(awk '
    /^test result:/ { passed += $4; failed += $6 }
    /^[0-9]+ passed, [0-9]+ failed$/ { schedules += $1; failed += $3 }
    END { print passed + 0, failed + 0, schedules + 0 }' "$log")"
if [ "$schedules" -lt "$SCHEDULES" ] && [ "$failed" = 0 ]; then
    failed_steps="$failed_steps
  the simulator ran $schedules of $SCHEDULES schedules"
fi
heading 'summary'
echo "tests: $passed, fault schedules: $schedules"
if [ -n "$failed_steps" ]; then
    echo "failed:$failed_steps"
    # A step may fail without a test failing: it did not build, or it crashed.
    [ "$failed" -gt 0 ] || failed=1
fi
echo "$((passed + schedules)) passed, $failed failed"
[ -z "$failed_steps" ] && [ "$failed" = 0 ] && [ "$passed" -gt 0 ]
