#!/bin/sh
# Prints the clusters and running servers of this host as lines "MAJOR PATH". Ours are gone when this runs.
{
  for file in /etc/postgresql/*/*/postgresql.conf; do
    directory=${file%/*}
    version=${directory%/*}
    [ ! -e "$file" ] || echo "${version##*/} $directory"
  done
  for file in /var/lib/pgsql/data/PG_VERSION /var/lib/pgsql/*/data/PG_VERSION; do
    [ ! -e "$file" ] || echo "$(cat "$file") ${file%/*}"
  done
  for exe in /proc/[0-9]*/exe; do
    directory=$(readlink "${exe%/exe}/cwd")
    case $(readlink "$exe") in
      */postgres) [ ! -e "$directory/PG_VERSION" ] || echo "$(cat "$directory/PG_VERSION") $directory" ;;
    esac
  done
} | sort -u
