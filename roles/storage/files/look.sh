#!/bin/sh
# Prints as JSON what a volume's devices are. Changes nothing.
# usage: look.sh MOUNTPOINT DEVICE...
#   mounted   what is mounted on the mount point, or null
#   devices   [{name, device, bytes, in_use, holds}]: the kernel's device, why it is in use ("" when not), what it holds ("" when empty)
# A device holds something when blkid knows a signature in it, or when its first or last MiB is not all zeros.
LC_ALL=C
export LC_ALL
mountpoint=$1
shift

empty() { # DEVICE BYTES
  for block in 0 $(($2 / 1048576 - 1)); do
    [ "$(dd if="$1" bs=1048576 skip="$block" count=1 2>/dev/null | tr -d '\0' | wc -c)" = 0 ] || return 1
  done
}

printf '{"mounted": '
source=$(awk -v at="$mountpoint" '$2 == at { found = $1 } END { print found }' /proc/self/mounts)
if [ -n "$source" ]; then printf '"%s"' "$source"; else printf null; fi
printf ', "devices": ['
separator=
for name in "$@"; do
  device=$(readlink -f "$name")
  in_use=
  holds=
  bytes=0
  if [ ! -b "$device" ]; then
    in_use="there is no such block device"
  else
    kernel=${device##*/}
    bytes=$(blockdev --getsize64 "$device")
    if grep -q "^$device[0-9p]* " /proc/self/mounts; then
      in_use="it is mounted on $(awk -v device="$device" 'index($1, device) == 1 { print $2; exit }' /proc/self/mounts)"
    elif grep -q "^$device[0-9p]* " /proc/swaps; then
      in_use="it is swap space"
    elif [ -n "$(ls "/sys/class/block/$kernel/holders" 2>/dev/null)" ]; then
      in_use="it is part of $(ls "/sys/class/block/$kernel/holders" | head -n 1)"
    elif [ "$bytes" -lt 67108864 ]; then
      in_use="it is smaller than 64 MB"
    fi
    holds=$(blkid -p -o value -s TYPE -s PTTYPE -s LABEL "$device" 2>/dev/null | paste -sd' ' -)
    if [ -z "$holds" ] && ! empty "$device" "$bytes"; then holds="data of an unknown kind"; fi
  fi
  printf '%s{"name": "%s", "device": "%s", "bytes": %s, "in_use": "%s", "holds": "%s"}' "$separator" "$name" "$device" "$bytes" "$in_use" "$holds"
  separator=', '
done
printf ']}\n'
