#!/bin/sh
# Sets the number of huge pages, with those that others use on top, and says whether the kernel had them.
# Does not even try for more than the memory that is free: the page cache of the whole host would be given up for it.
# usage: huge_pages.sh NUMBER          prints "before after wanted available": pages, and kB of memory that could be had
set -eu
file=/proc/sys/vm/nr_hugepages
field() { awk -v name="$1:" '$1 == name { print $2 }' /proc/meminfo; }
before=$(cat $file)
others=$(($(field HugePages_Total) - $(field HugePages_Free)))
wanted=$(($1 + others))
available=$(field MemAvailable)
if [ "$before" -lt "$wanted" ] && [ $(((wanted - before) * $(field Hugepagesize))) -lt "$available" ]; then
  echo "$wanted" >$file
  if [ "$(cat $file)" -lt "$wanted" ]; then
    sync
    echo 1 >/proc/sys/vm/compact_memory 2>/dev/null || true
    echo "$wanted" >$file
  fi
fi
after=$(cat $file)
[ "$after" -ge "$wanted" ] || [ "$after" -eq "$before" ] || echo "$before" >$file
echo "$before $after $wanted $available"
