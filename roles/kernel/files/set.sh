#!/bin/sh
# Gives kernel files their values and reads them back.
# usage: set.sh look|set FILE VALUE [FILE VALUE]...
#   look   prints as JSON what each file holds now: {"FILE": "VALUE"}, of files such as "always [madvise] never" the choice
#   set    writes the values that differ and prints the files that were written, one a line
# dirty_bytes and dirty_ratio exclude each other: the kernel sets the other one to 0, so that 0 is never written.
set -u
verb=$1
shift

now() {
  sed -n 's/.*\[\(.*\)\].*/\1/p;t;p' "$1" | head -n 1 | tr '\t' ' '
}

separator=
[ "$verb" = set ] || printf '{'
while [ $# -gt 0 ]; do
  file=$1
  value=$2
  shift 2
  if [ ! -e "$file" ]; then
    echo "this kernel has no $file" >&2
    exit 1
  fi
  if [ "$verb" = look ]; then
    printf '%s"%s": "%s"' "$separator" "$file" "$(now "$file")"
    separator=', '
  elif [ "$(now "$file")" != "$value" ]; then
    case $file:$value in *_bytes:0 | *_ratio:0) continue ;; esac
    if ! printf '%s' "$value" >"$file"; then
      echo "the kernel does not take $value for $file" >&2
      exit 1
    fi
    echo "$file"
  fi
done
[ "$verb" = set ] || printf '}\n'
