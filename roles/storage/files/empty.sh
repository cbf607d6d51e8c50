#!/bin/sh
# Takes file system and array signatures off a device and clears its first and last MiB.
# usage: empty.sh DEVICE
set -eu
[ -b "$1" ] || exit 0
last=$(($(blockdev --getsize64 "$1") / 1048576 - 1))
wipefs --all --quiet "$1"
for block in 0 $last; do dd if=/dev/zero of="$1" bs=1048576 seek="$block" count=1 conv=fsync 2>/dev/null; done
