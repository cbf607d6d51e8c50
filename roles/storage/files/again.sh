#!/bin/sh
# Mounts a volume of ours again, which a restart of the host has unmounted.
# usage: again.sh MOUNTPOINT FSTYPE MOUNT_OPTIONS ARRAY DEVICE...      several devices are the members of ARRAY
set -eu
mountpoint=$1
fstype=$2
options=$3
array=$4
shift 4
source=$1
if [ $# -gt 1 ]; then # the host may have put it together itself, under another name
  holder=$(ls "/sys/class/block/$(basename "$(readlink -f "$1")")/holders")
  if [ -n "$holder" ]; then source=/dev/$holder; else source=$array; mdadm --quiet --assemble "$array" "$@"; fi
fi
mkdir -p "$mountpoint"
mount -t "$fstype" -o "$options" "$source" "$mountpoint"
