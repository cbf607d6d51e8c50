#!/bin/sh
# Makes the virtual environment .venv; with the argument "test" also installs what the tests need from the system's packages.
# Safe to run again: what is there already is left as it is.
set -eu
cd "$(dirname "$0")/.."
kind=${1:-run}
requirements=requirements.txt
[ "$kind" = test ] && requirements=requirements-test.txt

python=
for candidate in python3.13 python3.12 python3.11 python3; do
    if command -v "$candidate" >/dev/null 2>&1 && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
[ -n "$python" ] || { echo "setup: Python 3.11 or newer is needed" >&2; exit 1; }

packages() {
    missing=
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
    done
    [ -z "$missing" ] && return
    [ "$(id -u)" = 0 ] || { echo "setup: run as root once, or install:$missing" >&2; exit 1; }
    # A Debian server package would make and start a cluster of its own; ours are private.
    case $missing in *postgresql*)
        mkdir -p /etc/postgresql-common
        [ -e /etc/postgresql-common/createcluster.conf ] || echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.conf ;;
    esac
    apt-get -o DPkg::Lock::Timeout=300 update -qq
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends $missing >/dev/null
}

if [ ! -x .venv/bin/pip ]; then
    rm -rf .venv
    "$python" -m venv .venv 2>/dev/null || { packages "$(basename "$(readlink -f "$(command -v "$python")")")-venv"; "$python" -m venv .venv; }
fi
stamp=".venv/.$kind-$(cat requirements.txt "$requirements" | cksum | tr -d ' ')"
if [ ! -e "$stamp" ]; then
    .venv/bin/pip install --quiet --disable-pip-version-check -r "$requirements"
    touch "$stamp"
fi
if [ "$kind" = test ]; then
    command -v dpkg-query >/dev/null 2>&1 || { echo "setup: the tests need Debian or Ubuntu" >&2; exit 1; }
    packages postgresql postgresql-contrib mawk tcl tmux chromium chromium-driver procps
fi
