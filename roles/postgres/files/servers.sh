#!/bin/sh
# Prints as JSON the running servers of ours and who else listens on a port. Changes nothing.
# usage: servers.sh CLUSTERS_DIR PORT
#   running   [{pid, port, cluster: cluster.json}]
#   listener  {pid, command} of the process that listens on TCP port PORT (pid 0: of another user, cannot be seen), or null
clusters=$1
port=$2

printf '{"running": ['
separator=
for dir in "$clusters"/*; do
  [ -r "$dir/cluster.json" ] && [ -r "$dir/data/postmaster.pid" ] || continue
  { read -r pid; read -r _; read -r _; read -r at; } <"$dir/data/postmaster.pid"
  # A postmaster works in its data directory: that tells it from a stale file whose pid now belongs to something else.
  [ "$(readlink "/proc/$pid/cwd")" = "$(readlink -f "$dir/data")" ] || continue
  printf '%s{"pid": %d, "port": %d, "cluster": %s}' "$separator" "$pid" "$at" "$(cat "$dir/cluster.json")"
  separator=', '
done

inode=$(awk -v port=":$(printf '%04X' "$port")" '$4 == "0A" && substr($2, length($2) - 4) == port { print $10; exit }' /proc/net/tcp /proc/net/tcp6 2>/dev/null)
if [ -z "$inode" ]; then
  echo '], "listener": null}'
  exit
fi
pid=$(ls -l /proc/[0-9]*/fd 2>/dev/null | awk -v socket="socket:[$inode]" '/^\/proc\// { split($0, part, "/") } $NF == socket { print part[3]; exit }')
command=$(tr '\0\t\n' '   ' <"/proc/${pid:-none}/cmdline" 2>/dev/null | sed 's/[\\"]/\\&/g; s/ *$//')
printf '], "listener": {"pid": %d, "command": "%s"}}\n' "${pid:-0}" "$command"
