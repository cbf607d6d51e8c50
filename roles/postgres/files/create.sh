#!/bin/sh
# Makes one cluster directory from nothing.
# usage: create.sh DIR OWNER INITDB INITDB_ARGUMENT...      (DIR does not exist yet)
# Only what the server itself writes belongs to OWNER: root later runs what cluster.json says.
# The password of the superuser is made here and kept in DIR/pgpass: it never leaves the host and never stands in an argument list.
set -eu
umask 022
dir=$1
owner=$2
shift 2
wal=
for option in "$@"; do case $option in --waldir=*) wal=${option#*=} ;; esac done
mkdir -p "${dir%/*}"
mkdir "$dir"
mkdir -m 700 "$dir/data" "$dir/run"
if [ -n "$wal" ]; then
  rm -rf "$wal" # of a cluster that was left half made
  mkdir -m 700 "$wal"
fi
echo '# Settings of the variant under test.' >"$dir/gucs.conf"
(
  umask 077
  : >"$dir/server.log"
  printf '*:*:*:pgsizing:%s\n' "$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')" >"$dir/pgpass"
)
if [ "$(id -un)" = "$owner" ]; then
  as_owner=
else
  chown "$owner" "$dir/data" "$dir/run" "$dir/server.log" "$dir/pgpass" ${wal:+"$wal"}
  as_owner="runuser -u $owner --"
fi
# shellcheck disable=SC2086,SC2016 # as_owner is a list of words; the inner shell expands its own arguments
$as_owner sh -c 'passfile=$1; shift; cut -d: -f5 "$passfile" | "$@" --pwfile=/dev/stdin' sh "$dir/pgpass" \
  "$@" --pgdata="$dir/data" --username=pgsizing >/dev/null
printf "\n# pgsizing: what the toolkit needs, then the variant's settings\ninclude '%s/base.conf'\ninclude '%s/gucs.conf'\n" "$dir" "$dir" >>"$dir/data/postgresql.conf"
