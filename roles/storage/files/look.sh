#!/bin/sh
# Prints as JSON what a volume's devices are. Changes nothing.
# usage: look.sh MOUNTPOINT DEVICE...
#   mounted   what is mounted on the mount point, or null
#   devices   [{name, device, bytes, in_use, holds, uuid}]: the kernel's device, why it cannot be used ("" when it can), what it holds
#             ("" when empty), and the UUID of the file system or array in it ("" when there is none)
# A device holds something when blkid knows a signature in it, or when its first or last MiB is not all zeros.
# One that cannot be read cannot be used.
LC_ALL=C
export LC_ALL
mountpoint=$1
shift
MIB=1048576

part() { dd if="$1" bs=$MIB count=$MIB skip="$2" iflag=skip_bytes,count_bytes,fullblock status=none; } # DEVICE FROM-BYTE

unreadable() { # DEVICE BYTES
  for from in 0 $(($2 - MIB)); do
    if ! said=$(part "$1" "$from" 2>&1 >/dev/null); then
      echo "it cannot be read at byte $from: ${said##*: }"
      break
    fi
  done
}

empty() { # DEVICE BYTES
  for from in 0 $(($2 - MIB)); do
    [ "$(part "$1" "$from" | tr -cd '\0' | wc -c)" = $MIB ] || return 1
  done
}

# Why the device or a partition of it is in use, by its number: a table of mounts may call it /dev/root.
used() { # KERNEL'S NAME
  for part in "/sys/class/block/$1" "/sys/class/block/$1/$1"*; do
    [ -r "$part/dev" ] || continue
    at=$(awk -v dev="$(cat "$part/dev")" '$3 == dev { print $5; exit }' /proc/self/mountinfo)
    holder=$(ls "$part/holders" 2>/dev/null | head -n 1)
    if [ -n "$at" ]; then echo "it is mounted on $at"; break; fi
    if [ -n "$holder" ]; then echo "it is part of $holder"; break; fi
  done
}

# A label or a mount point may hold quotes and backslashes.
text() { printf '%s' "$1" | tr -d '\000-\037' | sed 's/[\\"]/\\&/g'; }

printf '{"mounted": '
source=$(awk -v at="$mountpoint" '$2 == at { found = $1 } END { print found }' /proc/self/mounts)
if [ -n "$source" ]; then printf '"%s"' "$(text "$source")"; else printf null; fi
printf ', "devices": ['
separator=
for name in "$@"; do
  device=$(readlink -f "$name")
  in_use=
  holds=
  uuid=
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
    elif [ -n "$(used "$kernel")" ]; then
      in_use=$(used "$kernel")
    elif [ "$bytes" -lt 67108864 ]; then
      in_use="it is smaller than 64 MB"
    else
      in_use=$(unreadable "$device" "$bytes")
    fi
    uuid=$(blkid -p -o value -s UUID "$device" 2>/dev/null)
    holds=$(blkid -p -o value -s TYPE -s PTTYPE -s LABEL "$device" 2>/dev/null | paste -sd' ' -)
    if [ -z "$holds$in_use" ] && ! empty "$device" "$bytes"; then holds="data of an unknown kind"; fi
  fi
  printf '%s{"name": "%s", "device": "%s", "bytes": %s, "in_use": "%s", "holds": "%s", "uuid": "%s"}' "$separator" "$name" "$device" \
    "$bytes" "$(text "$in_use")" "$(text "$holds")" "$(text "$uuid")"
  separator=', '
done
printf ']}\n'
