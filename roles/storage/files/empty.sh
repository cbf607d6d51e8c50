#!/bin/sh
# Ends the array that a device of ours is in, takes the signatures off the device and clears its first and last MiB.
# usage: empty.sh DEVICE UUID...      UUID: of what this role made there; a device that holds anything else is left alone, and named
set -eu
[ -b "$1" ] || exit 0
device=$(readlink -f "$1")
uuid=$(blkid -p -o value -s UUID "$device") || exit 0 # it holds nothing
name=$1
shift
for ours in "$@"; do
  [ "$uuid" = "$ours" ] || continue
  for holder in "/sys/class/block/${device##*/}/holders"/md*; do
    [ ! -e "$holder" ] || mdadm --quiet --stop "/dev/${holder##*/}"
  done
  wipefs --all --quiet "$device"
  for from in 0 $(($(blockdev --getsize64 "$device") - 1048576)); do
    dd if=/dev/zero of="$device" bs=1048576 count=1 seek="$from" oflag=seek_bytes conv=fsync status=none
  done
  exit 0
done
echo "$name ($device) holds what this role did not make: it is left alone"
