#!/bin/bash
# A test-bed of two hosts on this machine, db and driver, each with systemd, an address and a file system of its own, reached by ssh.
# Made of podman and runc on a bridge of its own, whose subnet is the first free one: .cache/testbed/net has its first three numbers.
# It proves orchestration, never performance: both hosts share CPU, memory and the vm.* settings with this machine.
#   testbed.sh up      make and start both hosts (fresh ones when they stand already); all state is in .cache/testbed
#   testbed.sh down    remove hosts, network and state but for the root file system, which the next "up" uses again
#   testbed.sh check   say why this machine cannot hold a test-bed (exit status 3), or nothing
set -euo pipefail
cd "$(dirname "$0")/../.."
verb=${1:-up}
bed=$PWD/.cache/testbed
packages=(podman runc netavark mmdebstrap arch-test openssh-client iptables)
hosts=(db driver)

why_not() {
  if [ "$(id -u)" != 0 ]; then
    echo "it needs root"
  elif ! command -v dpkg-query >/dev/null || ! grep -q '^ID=debian' /etc/os-release; then
    echo "it needs Debian"
  elif ! unshare --mount --net --pid --fork true 2>/dev/null; then
    echo "this machine may not make name spaces"
  elif ! grep -qw overlay /proc/filesystems && ! modprobe overlay 2>/dev/null; then
    echo "the kernel has no overlay file system"
  elif [ "$(stat -fc %T "$PWD")" = overlayfs ]; then
    echo "$PWD is on an overlay file system itself"
  fi
}

pod() { CONTAINERS_CONF=$bed/containers.conf CONTAINERS_STORAGE_CONF=$bed/storage.conf podman --log-level=error "$@"; }

on() { # HOST-ADDRESS COMMAND
  ssh -q -i "$bed/key" -o BatchMode=yes -o ConnectTimeout=2 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null "root@$1" "$2"
}

# Chains that netavark leaves behind, and the rules that lead to them.
remove_chains() {
  local table line
  for table in filter nat; do
    iptables -w -t "$table" -S 2>/dev/null | grep -- '-A .*NETAVARK' | sed 's/^-A/-D/' | while read -r line; do
      eval "iptables -w -t $table $line" # words in quotes
    done
    iptables -w -t "$table" -S 2>/dev/null | sed -n 's/^-N \(NETAVARK.*\)/\1/p' | while read -r line; do iptables -w -t "$table" -X "$line"; done
  done
}

down() {
  local path
  [ -e "$bed/before" ] || return 0
  pod rm -f -t 1 $(printf 'tb-%s ' "${hosts[@]}") >/dev/null 2>&1 || true
  pod network rm -f tbnet >/dev/null 2>&1 || true
  cat "$bed/before/ip_forward" >/proc/sys/net/ipv4/ip_forward
  [ -e "$bed/before/chains" ] || remove_chains
  while read -r path; do
    if mountpoint -q "$path"; then umount "$path"; fi
    rm -rf "$path"
  done <"$bed/before/absent"
  find /sys/fs/cgroup -depth -type d -path '*/libpod_parent*' -exec rmdir {} + 2>/dev/null || true
  # podman's own state; what is mounted in it goes first
  for path in $(awk -v under="$bed/" 'index($5, under) == 1 { print $5 }' /proc/self/mountinfo | sort -r); do umount "$path"; done
  rm -rf "$bed/storage" "$bed/run" "$bed/networks" "$bed/before" "$bed/net" "$bed/containers.conf" "$bed/storage.conf"
}

# What "down" has to put back.
remember() {
  local path
  mkdir -p before
  cat /proc/sys/net/ipv4/ip_forward >before/ip_forward
  if iptables-save | grep -q NETAVARK; then touch before/chains; fi
  for path in /run/containers /run/netns /run/runc; do [ -e "$path" ] || echo "$path"; done >before/absent
}

make_rootfs() {
  local mirror
  rm -rf rootfs
  mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep -m1 -E '/debian/?$')
  mmdebstrap --quiet --format=directory --variant=minbase \
    --include=python3-minimal,python3-apt,openssh-server,iproute2,iputils-ping,ca-certificates,systemd,systemd-sysv,dbus,sudo,procps,kmod,e2fsprogs \
    --dpkgopt=force-unsafe-io --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' --aptopt='Acquire::Languages "none"' bookworm rootfs "$mirror"
  install -D -m 600 key.pub rootfs/root/.ssh/authorized_keys
  : >rootfs/etc/machine-id # each host makes its own
  touch rootfs/.done
}

up() {
  local missing=() addresses n net address
  for p in "${packages[@]}"; do dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p"); done
  if [ ${#missing[@]} -gt 0 ]; then
    apt-get -o DPkg::Lock::Timeout=300 update -qq
    DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
  fi
  mkdir -p "$bed"
  cd "$bed"
  [ -f key ] || ssh-keygen -q -t ed25519 -N '' -C testbed -f key
  [ -e rootfs/.done ] || make_rootfs
  down
  remember
  mkdir -p networks
  cat >containers.conf <<END
[containers]
default_ulimits = ["nofile=$(ulimit -Hn):$(ulimit -Hn)", "nproc=16384:16384"]
[network]
network_config_dir = "$bed/networks"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
runtime = "runc"
lock_type = "file"
tmp_dir = "$bed/run/libpod"
static_dir = "$bed/storage/libpod"
END
  cat >storage.conf <<END
[storage]
driver = "overlay"
graphroot = "$bed/storage"
runroot = "$bed/run"
END
  # no name server: it would stay behind, and the hosts know each other by /etc/hosts
  pod network create --disable-dns tbnet >/dev/null
  net=$(pod network inspect --format '{{(index .Subnets 0).Subnet}}' tbnet)
  net=${net%.*}
  echo "$net" >net
  addresses=("$net.11" "$net.12")
  # A host keeps its hardware address over a reboot: the other one knows it by that.
  for n in 0 1; do
    pod run -d --name "tb-${hosts[n]}" --hostname "${hosts[n]}" --network tbnet --ip "${addresses[n]}" --mac-address "02:00:0a:59:09:1$n" \
      --add-host "db:${addresses[0]}" --add-host "driver:${addresses[1]}" --log-driver=none \
      --privileged --systemd=always --rootfs "$bed/rootfs:O" /sbin/init >/dev/null
  done
  for address in "${addresses[@]}"; do
    for _ in $(seq 100); do
      on "$address" 'systemctl is-system-running --wait' >/dev/null && break
      sleep 0.3
    done
    on "$address" true || { echo "test-bed: $address does not answer by ssh" >&2; exit 1; }
  done
  echo "test-bed: db is ${addresses[0]}, driver is ${addresses[1]}; ansible-playbook -i inventories/testbed benchmark.yml"
}

reason=$(why_not)
case $verb in
  check | up)
    if [ -n "$reason" ]; then echo "no test-bed on this machine: $reason" >&2; exit 3; fi
    if [ "$verb" = up ]; then up; fi
    ;;
  down) down ;;
  *)
    echo "usage: testbed.sh up|down|check" >&2
    exit 2
    ;;
esac
