#!/usr/bin/env bash
# Inside of a bare system (tools/try-first-contact.sh), as an ordinary user who may use sudo: README's
# "Try it", after which the machine is as before; then the first half of "Install it on two hosts". What was
# measured goes to ~/figures.
set -euo pipefail
cd ~/tabane
fail() { echo "first contact: $*" >&2; exit 1; }

# What is there besides files of packages. A bare system has neither ip nor ps. What labs leave is the
# empty directory in which they say that they are there.
state() {
    find /run /tmp /dev/shm -mindepth 1 -not -path '/run/sudo*' -not -path '/run/lock*' -not -path '/run/adduser*' \
        -not \( -name 'tabane-lab*' -type d -empty \) | sort
    ls /sys/class/net
    cat /proc/[0-9]*/comm 2>/dev/null | grep -vxE 'cat|grep|bash|demo.sh|sudo' || true
    sudo find /proc -maxdepth 3 -path '/proc/[0-9]*/ns/net' -printf '%l\n' 2>/dev/null | sort -u
}

state >~/before
# Each line with the second in which it came.
make demo 2>&1 </dev/null | while IFS= read -r line; do
    printf '%s %s\n' "$EPOCHSECONDS" "$line"
done >~/demo.log || { tail -30 ~/demo.log >&2; fail 'make demo'; }
state >~/after
diff ~/before ~/after >&2 || fail 'make demo left this'

# at PATTERN: when the first such line came.
at() { awk -v pattern="$1" '$0 ~ pattern { print $1; exit }' ~/demo.log; }
end=$EPOCHSECONDS built=$(at ' Finished ') building=$(at ' (Updating|Downloading|Compiling) ')
begin=$(head -1 ~/demo.log); begin=${begin%% *}
grep -qE ' tabane.* used both links at [0-9.]+ times the rate of one; longest gap .*; 0 bytes lost\.$' ~/demo.log ||
    { tail -12 ~/demo.log >&2; fail 'the last words of make demo'; }
grep -q '</svg>' demo.svg || fail 'no picture'
packages=$(sed -n 's/.* that is \([0-9]*\) packages .*, \([0-9]* MB\) to fetch$/\1 packages (\2)/p' ~/demo.log | tail -1)
crates=(~/.cargo/registry/cache/*/*.crate)

# "Install it on two hosts", as far as it goes with one.
make build >~/build.log 2>&1 </dev/null || { tail -30 ~/build.log >&2; fail 'make build'; }
{ sudo make install 2>&1 </dev/null; } >~/install.log || { tail -30 ~/install.log >&2; fail 'make install'; }
{ sudo tabane init --node n0=10.77.0.1,10.77.1.1 --node n1=10.77.0.2,10.77.1.2; } >~/init.log
cat >~/figures <<END
$packages installed in $((building - begin)) s; built in $((built - building)) s, with ${#crates[@]} crates ($(du -cm "${crates[@]}" | sed -n 's/\ttotal/ MB/p')); ran $((end - built)) s; make build and install took $((EPOCHSECONDS - end)) s more
  $(sed -n 's/^[0-9]* \(tabane.* used both.*\)/\1/p' ~/demo.log)
END
