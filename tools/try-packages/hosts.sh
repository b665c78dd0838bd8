#!/usr/bin/env bash
# Inside of a fresh system (tools/try-packages.sh): the Ansible role makes it a node, by the package
# and by the static program; cloud-init takes its file. Where systemd runs (tools/try-packages/systemd.sh),
# the node has an address, and the service is started, and reloaded when the file changes.
set -euo pipefail
cd /try/dist/ansible
cloud-init schema --config-file ../cloud-init/user-data.yaml

# play SETTINGS: twice, and the second time nothing changes.
play() {
    local run=(ansible-playbook --inventory "localhost," --connection local --extra-vars "$1" play.yml)
    sed 's/^  hosts: tabane/  hosts: localhost/' site.yml >play.yml
    "${run[@]}" --syntax-check >/dev/null
    "${run[@]}" >play.log || { cat play.log >&2; exit 1; }
    "${run[@]}" >play.log || { cat play.log >&2; exit 1; }
    grep -q 'changed=0 .* failed=0' play.log || { cat play.log >&2; exit 1; }
    [ "$(stat -c '%a %U' /etc/tabane/cluster.toml)" = '600 root' ]
    [ "$(stat -c '%a %U' /etc/tabane)" = '700 root' ]
    [ -d /run/systemd/system ] || return 0
    systemctl is-active --quiet tabane
    systemctl is-enabled --quiet tabane
    sed -i 's/"10.77.1.1"\]/""]/' cluster.toml
    "${run[@]}" >play.log || { cat play.log >&2; exit 1; }
    [[ $(journalctl --unit tabane --lines 3) = *'read anew: n0: link 1 removed'* ]] || { journalctl --unit tabane --lines 20 >&2; exit 1; }
    sed -i 's/"10.77.0.1", ""\]/"10.77.0.1", "10.77.1.1"]/' cluster.toml
    systemctl stop tabane
}
export ANSIBLE_LOCALHOST_WARNING=false ANSIBLE_PYTHON_INTERPRETER=auto_silent ANSIBLE_HOME=/try/home ANSIBLE_LOCAL_TEMP=/try/home ANSIBLE_REMOTE_TEMP=/try/home
rm -f cluster.toml
./tabane init --node n0=10.77.0.1,10.77.1.1 --node n1=10.77.0.2,10.77.1.2 cluster.toml >/dev/null

play '{"tabane_cluster_file": "'"$PWD"'/cluster.toml", "tabane_packages": ["'"$(echo /try/tabane_*.deb)"'"]}'
/usr/bin/tabane --version
dpkg --purge tabane >/dev/null 2>&1
[ ! -e /etc/tabane ]

play '{"tabane_cluster_file": "'"$PWD"'/cluster.toml", "tabane_install": "static", "tabane_static": "'"$PWD"'"}'
/usr/local/bin/tabane --version
rm -r /usr/local/bin/tabane /etc/systemd/system/tabane.service /etc/tabane
