#!/usr/bin/env bash
# The rules of the house that no compiler checks (CONTRIBUTING.md says why).
# Prints every breach as FILE:LINE: what; exit code 1 if there is one.
set -uo pipefail
cd "$(dirname "$0")/.."

# Where `unsafe` may be: the crates that make system calls, those that C calls, and the one that reaches the program's memory.
UNSAFE_ROOMS='crates/io crates/capi crates/fabric crates/vipl crates/rank lab'
FILE_LINES_MAX=800
FUNCTION_LINES_MAX=70

breaches=$(mktemp)
trap 'rm -f "$breaches"' EXIT

files() { git ls-files --cached --others --exclude-standard -- "$@"; }
mapfile -t rust < <(files '*.rs')
mapfile -t proto < <(files 'crates/proto/src/*.rs')
mapfile -t text < <(files ':!Cargo.lock' ':!*.svg' ':!*.png' ':!LICENSE-*' ':!fuzz/corpus')

# forbid WHAT PATTERN FILE…: no line of code may match; comments may.
forbid() {
    local what=$1 pattern=$2
    shift 2
    [ $# -gt 0 ] || return 0
    grep -nHP "$pattern" "$@" | grep -vP '^[^:]+:\d+:\s*//' |
        sed "s|^\([^:]*:[0-9]*\):.*|\1: $what|" >>"$breaches"
}

# forbid_text: comments and documents too.
forbid_text() {
    local what=$1 pattern=$2
    grep -nHIP "$pattern" "${text[@]}" | sed "s|^\([^:]*:[0-9]*\):.*|\1: $what|" >>"$breaches"
}

# The protocol is pure: what has an effect is an argument.
forbid 'proto is pure: no clock, thread, file, process or environment' \
    'std::(time::(Instant|SystemTime)|thread|fs|env|process|io::std)' "${proto[@]}"
forbid 'proto is pure: no socket' 'std::net::(Udp|Tcp)|std::os::' "${proto[@]}"
forbid 'proto is pure: no randomness of its own' '\b(getrandom|thread_rng|OsRng|SystemRandom|HashMap|HashSet)\b' "${proto[@]}"
grep -nE '^(tabane-|libc|socket2|nix|tokio)' crates/proto/Cargo.toml |
    sed 's|^\([0-9]*\):.*|crates/proto/Cargo.toml:\1: proto knows nothing above it, nor the system|' >>"$breaches"

# Each crate root outside of the rooms forbids `unsafe`, so the compiler does
# the rest.
for root in $(files '*/src/lib.rs'); do
    room=${root%/src/lib.rs}
    case " $UNSAFE_ROOMS " in
        *" $room "*) continue ;;
    esac
    grep -q '^#!\[forbid(unsafe_code)\]' "$root" ||
        echo "$root:1: lacks #![forbid(unsafe_code)]; unsafe lives in: $UNSAFE_ROOMS" >>"$breaches"
done
outside=()
for file in "${rust[@]}"; do
    case $file in
        crates/io/* | crates/capi/* | crates/fabric/* | crates/vipl/* | crates/rank/* | lab/*) ;;
        *) outside+=("$file") ;;
    esac
done
forbid "unsafe lives in: $UNSAFE_ROOMS" '\bunsafe\b(?!_code)' "${outside[@]}"

forbid 'a test is not skipped; mend it or remove it' '#\[ignore' "${rust[@]}"
forbid 'not for a committed file' '\b(dbg|to''do|unim''plemented)!' "${rust[@]}"
forbid_text 'say it in an issue, or do it' '\b(TO''DO|FIX''ME|X''XX)\b'
forbid_text 'a path of one machine' '(?<![\w.-])/(work|ro''ot|home/[a-z])/'

# Sizes.
for file in "${rust[@]}"; do
    lines=$(wc -l <"$file")
    [ "$lines" -le $FILE_LINES_MAX ] ||
        echo "$file:$lines: more than $FILE_LINES_MAX lines: it wants to be two files" >>"$breaches"
done
# As rustfmt lays it out, a function ends at a brace as deep as it began.
# Blank lines and comments do not count, nor do tests: a table of cases is data.
mapfile -t code < <(printf '%s\n' "${rust[@]}" | grep -vE '(^|/)(tests/|tests\.rs)')
[ ${#code[@]} = 0 ] || awk -v max=$FUNCTION_LINES_MAX '
    FNR == 1 { inside = 0 }
    !inside && /^ *(pub(\([a-z: ]+\))? )?(const |async |unsafe |extern "C" )*fn / && !/[;}]$/ {
        match($0, /^ */); depth = RLENGTH; inside = 1; began = FNR; count = 0; next
    }
    inside {
        match($0, /^ */)
        if (RLENGTH == depth && $0 ~ /^ *}/) {
            if (count > max) print FILENAME ":" began ": a function of " count " lines; " max " at most"
            inside = 0
        } else if (RLENGTH == depth && $0 ~ /;$/) inside = 0
        else if ($0 !~ /^ *(\/\/.*)?$/) count++
    }' "${code[@]}" >>"$breaches"

# Documents: what they link to and which files they name must exist. A name
# such as `crates/proto/src/op/{stream,unit}/` stands for several.
for document in $(files '*.md'); do
    here=$(dirname "$document")
    grep -noP '\]\(\K[^)#: ]+(?=(#[^)]*)?\))' "$document" | while IFS=: read -r line target; do
        [ -e "$here/$target" ] || echo "$document:$line: links to $target, which is not there"
    done
    grep -noP '`\K(crates|sim|lab|bench|tools|docs|figures|fuzz|\.ci)/[\w./{},-]+(?=`)' "$document" | while IFS=: read -r line target; do
        for name in $(eval "echo $target"); do
            [ -e "$name" ] || echo "$document:$line: names $name, which is not there"
        done
    done
done >>"$breaches"

sort -t: -k1,1 -k2,2n "$breaches"
[ ! -s "$breaches" ]
