#!/bin/sh
# Upgrades that a host makes by itself: at its first boot, and by timers, which may go off in the middle of a measurement.
# usage: upgrades.sh look            waits for the first boot to end; prints the units that may start upgrades, one a line
#        upgrades.sh hold UNIT...    keeps them from it until the host is restarted, and waits for upgrades that run already
#        upgrades.sh free UNIT...    lets them again
# A wait ends after PATIENCE seconds even so: who installs then meets the package lock, and says so. A running upgrade is never ended.
set -u
PATIENCE=600
verb=$1
shift

case $verb in
  look)
    case $(cloud-init status 2>/dev/null) in *running*) timeout "$PATIENCE" cloud-init status --wait >/dev/null 2>&1 ;; esac
    for unit in apt-daily apt-daily-upgrade dnf-automatic dnf-automatic-download dnf-automatic-install dnf-automatic-notifyonly dnf-makecache; do
      if systemctl --quiet is-active "$unit.timer"; then echo "$unit.timer"; fi
    done
    case $(systemctl is-enabled packagekit.service 2>/dev/null) in '' | masked* | not-found) ;; *) echo packagekit.service ;; esac
    ;;
  hold)
    for unit in "$@"; do
      case $unit in *.timer) systemctl stop "$unit" || exit 1 ;; esac
      systemctl --quiet --runtime mask "$unit"
    done
    for unit in "$@"; do
      while [ "$PATIENCE" -gt 0 ] && [ "$(systemctl is-active "${unit%.*}.service")" = activating ]; do
        sleep 2
        PATIENCE=$((PATIENCE - 2))
      done
    done
    ;;
  free)
    for unit in "$@"; do
      systemctl --quiet --runtime unmask "$unit"
      case $unit in *.timer) systemctl start "$unit" || exit 1 ;; esac
    done
    ;;
esac
exit 0
