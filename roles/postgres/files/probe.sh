#!/bin/sh
# Prints as JSON what the role must know of a host. Changes nothing.
# usage: probe.sh BASE_DIR|'' BIN_DIR_GLOB...
#   uid, user     who runs this
#   systemd       whether systemd runs the host
#   base_dir      BASE_DIR, or the user's default
#   exists        whether it exists; entries: its content; clusters: the content of its folder clusters
#   complete      names of the clusters that are complete (cluster.json is written last)
#   restore       its restore.json ({} when missing)
#   binaries      [{bin_dir, version, version_num, major}] of complete community servers, in the order of the globs
#   locales       what `locale -a` prints
LC_ALL=C
export LC_ALL

list() { # the lines of stdin as the inside of a JSON list of strings
  sed 's/[\\"]/\\&/g; s/.*/"&"/' | paste -sd, -
}

base=$1
shift
user=$(id -un)
if [ -z "$base" ]; then
  if [ "$(id -u)" = 0 ]; then
    base=/var/lib/pgsizing
  else
    base=$(getent passwd "$user" | cut -d: -f6)/.local/state/pgsizing
  fi
fi

printf '{"uid": %s, "user": "%s", ' "$(id -u)" "$user"
if [ -d /run/systemd/system ]; then printf '"systemd": true, '; else printf '"systemd": false, '; fi
printf '"base_dir": "%s", ' "$base"
if [ -e "$base" ]; then printf '"exists": true, '; else printf '"exists": false, '; fi
printf '"entries": [%s], ' "$(ls -A "$base" 2>/dev/null | list)"
printf '"clusters": [%s], ' "$(ls -A "$base/clusters" 2>/dev/null | list)"
printf '"complete": [%s], ' "$(cd "$base/clusters" 2>/dev/null && ls -d ./*/cluster.json 2>/dev/null | cut -d/ -f2 | list)"
printf '"restore": %s, ' "$(cat "$base/restore.json" 2>/dev/null || echo '{}')"

printf '"binaries": ['
separator=
for glob in "$@"; do
  for dir in $glob; do # unquoted: the glob is expanded here
    for program in postgres initdb pg_ctl psql pgbench; do
      [ -x "$dir/$program" ] || continue 2
    done
    # postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1); EPAS names itself EnterpriseDB
    words=$("$dir/postgres" --version 2>/dev/null) || continue
    case $words in *' (PostgreSQL) '*) ;; *) continue ;; esac
    version=${words#*(PostgreSQL) }
    version=${version%% *}
    major=${version%%[!0-9]*}
    minor=${version#"$major"}
    case $minor in .*) minor=${minor#.} ;; *) minor=0 ;; esac # 19beta1, 19devel
    printf '%s{"bin_dir": "%s", "version": "%s", "version_num": %d%04d, "major": %d}' "$separator" "$dir" "$version" "$major" "$minor" "$major"
    separator=', '
  done
done
printf '], '
printf '"locales": [%s]}\n' "$(locale -a 2>/dev/null | list)"
