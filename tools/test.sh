#!/usr/bin/env bash
# `make test`: every test of the workspace, most of those that build a lab once more as
# an ordinary user, the documentation's examples, and the simulator's fault
# schedules. Goes on after a failure, to show all of them; the last line counts.
#
# Most tests wait most of the time: so several programs of tests run side by side,
# and the simulator with what they leave of the processors.
#
#   SCHEDULES=10000   how many fault schedules the simulator runs
#   SEED=0            the first one's seed
#   ONCE='soak …'     programs of tests that root does not run again as an ordinary user: they take long, and
#                     those beside them show what is other for such a user. `make soak-tests` leaves none out
#   AT_ONCE=2         how many programs of tests run side by side; as many as there are processors
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:$HOME/.cargo/bin:/usr/local/sbin:/usr/sbin:/sbin"
SCHEDULES=${SCHEDULES:-10000}
SEED=${SEED:-0}
ONCE=${ONCE-programs outside_programs soak doctor mptcp mpi}
AT_ONCE=${AT_ONCE:-$(nproc)}
# A test that hangs is a failure, not the end of the machine's lease.
STEP_MAX=20m
# The crates whose tests meet the system: namespaces, devices, sockets.
SYSTEM_CRATES='crates/capi crates/cluster crates/library crates/io crates/engine crates/tabane crates/vipl lab bench'
# Programs of tests that take longest: they begin first.
LONG='programs outside_programs soak'
# Those beside which nothing may run, not even the simulator: they judge how long somebody waits for an answer, want a
# processor for each rank, or
# bind the same port again the moment that another program has left it.
ALONE='doctor run slow_links mpi'

scratch=$(mktemp -d)
chmod 755 "$scratch"
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$scratch"' EXIT
log=$scratch/log
failed_steps=''

heading() { printf '\n== %s\n' "$*"; }

bounded() { timeout --kill-after=30s "$STEP_MAX" "$@"; }

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

# begin NAME COMMAND…: with what tests leave of the processors; `step … ended NAME` shows what
# it said. Ends with this shell.
begin() {
    local said=$scratch/$1
    shift
    {
        setpriv --pdeathsig TERM chrt --idle 0 timeout --kill-after=30s "$STEP_MAX" "$@"
        echo $? >"$said.status"
    } >"$said" 2>&1 </dev/null &
}
ended() {
    until [ -s "$scratch/$1.status" ]; do sleep 0.1; done
    cat "$scratch/$1"
    return "$(cat "$scratch/$1.status")"
}

# Builds all tests (and examples, which tests run, as a reader of them would), and leaves
# lines "PROGRAM DIRECTORY" in $scratch/programs.
build() {
    # Twice, because errors are for people to read and programs are not.
    bounded cargo test --workspace --no-run --quiet || return
    cargo test --workspace --no-run --quiet --message-format=json 2>/dev/null |
        sed -n 's/.*"manifest_path":"\([^"]*\)\/Cargo.toml".*"profile":{[^}]*"test":true}.*"executable":"\([^"]*\)".*/\2 \1/p' \
            >"$scratch/programs"
    [ -s "$scratch/programs" ] || { echo "no test programs were found"; return 1; }
    plan
}

# Lines "GROUP WAY PROGRAM DIRECTORY" of what is to run.
plan() {
    local program directory name way ways group
    while read -r program directory; do
        name=$(basename "${program%-*}") group=other ways=here
        case " $LONG " in *" $name "*) group=long ;; esac
        case " $ALONE " in *" $name "*) group=alone ;; esac
        case "$(id -u): $SYSTEM_CRATES " in
            0:*" ${directory#"$PWD"/} "*) ways='here nobody' ;;
        esac
        case " $ONCE " in *" $name "*) ways=here ;; esac
        for way in $ways; do echo "$group $way $program $directory"; done
    done <"$scratch/programs" | sort -s -k 2,2 >"$scratch/plan"
}

# one WAY PROGRAM DIRECTORY: runs a program of tests, then says all that it said. Cargo runs
# tests in their package's directory, so the same is done here.
one() {
    local way=$1 program=$2 directory=$3 name said=$scratch/said.$BASHPID status
    name=$(basename "$program")
    [ "$way" = here ] || name="$name as $way"
    case $way in
        here) (cd "$directory" && bounded "$program") ;;
        nobody) bounded tools/as-nobody.sh "$PWD" "$program" "$directory" ;;
    esac >"$said" 2>&1
    status=$?
    {
        flock 9
        echo "     Running $name"
        cat "$said"
        [ "$status" = 0 ] || echo "$name: exit code $status" | tee -a "$scratch/failed"
    } 9>"$scratch/turn"
    rm "$said"
}

# all COUNT GROUP…: so many at once of these groups, one group after the other.
all() {
    local at_once=$1 group way program directory running=0
    shift
    rm -f "$scratch/failed"
    while read -r group way program directory <&3; do
        if [ "$running" -ge "$at_once" ]; then
            wait -n
            running=$((running - 1))
        fi
        one "$way" "$program" "$directory" &
        running=$((running + 1))
    done 3< <(for group; do grep "^$group " "$scratch/plan"; done)
    wait
    [ ! -e "$scratch/failed" ]
}

[ "$(id -u)" = 0 ] ||
    heading 'tests run as an ordinary user only; as root they would run both ways'
if step 'building the tests' build; then
    simulator=(cargo run --quiet --release -p tabane-sim --bin sim --)
    begin schedules "${simulator[@]}" run --seeds "$SEED..$((SEED + SCHEDULES))"
    begin snapshot "${simulator[@]}" snapshot
    step 'tests' all "$AT_ONCE" long other
    step 'documentation examples' bounded cargo test --workspace --no-fail-fast --doc
    step "simulator: $SCHEDULES fault schedules" ended schedules
    step 'simulator: more links are never slower than the best one' ended snapshot
    step 'tests that are let alone' all 1 alone
fi

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
