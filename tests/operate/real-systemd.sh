#!/bin/bash
# Boots a small Debian under a real systemd, three times. First it runs the ten commands of docs/run.md, with the network that
# they need. Then it operates the service without a network: install, start, crash, watchdog, reload, upgrade under load,
# removal. Then it upgrades 0.1.0 to this version and goes back. Run as root: tests/operate/real-systemd.sh [FOLDER]
# FOLDER keeps the Debian between runs (dist/systemd-machine by default).
set -eu
cd "$(dirname "$0")/../.."
folder=$(realpath -m "${1:-dist/systemd-machine}")
root=$folder/root
# The runner may be several words, "npx --yes bun@VERSION"; the machine gets the program that they start.
bun=$(${BUN:-bun} -e 'process.stdout.write(process.execPath)') || {
  echo "\"${BUN:-bun}\" can't be run: install Bun, or npm, which fetches it"
  exit 1
}

[ "$(id -u)" = 0 ] || {
  echo "This boots a system, for which it has to be root"
  exit 1
}
for program in systemd-nspawn debootstrap slirp4netns; do
  command -v $program >/dev/null || {
    echo "$program is missing: \"make test-tools\" installs it"
    exit 1
  }
done
if [ ! -e "$root/usr/bin/redis-server" ]; then
  mkdir -p "$folder"
  rm -rf "$root"
  debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,procps,ca-certificates,redis-server \
    bookworm "$root.new" >"$folder/debootstrap.log" 2>&1 || {
    tail -5 "$folder/debootstrap.log"
    exit 1
  }
  mv "$root.new" "$root"
fi
package=$(make -s deb)

# The last commit of 0.1.0, which was never tagged.
first=1fee83e
earlier=$folder/earlier/dist/sync-bridge_0.1.0_$(dpkg --print-architecture).deb
if [ ! -e "$earlier" ]; then
  rm -rf "$folder/earlier"
  git clone -q . "$folder/earlier"
  git -C "$folder/earlier" checkout -q $first || {
    echo "The upgrade starts from commit $first, which this clone lacks: git fetch --unshallow"
    exit 1
  }
  make -s -C "$folder/earlier" deb >"$folder/earlier.log" 2>&1 || {
    tail -5 "$folder/earlier.log"
    exit 1
  }
fi

network=()
cleanup() {
  [ ${#network[@]} = 0 ] || kill "${network[@]}"
  rm -rf "$results"
}
results=$(mktemp -d "$folder/results.XXXXXX")
trap cleanup EXIT

# boot SCRIPT OPTION…: a fresh machine runs this script and shuts down; fails unless everything was as expected.
boot() {
  local script=$1
  shift
  cat >"$results/trial.service" <<UNIT
[Unit]
After=multi-user.target
[Service]
Type=oneshot
TimeoutStartSec=600
ExecStart=/bin/bash /project/tests/operate/$script
StandardOutput=file:/results/output
StandardError=file:/results/output
ExecStopPost=/bin/systemctl --no-block poweroff
UNIT
  : >"$results/output"
  systemd-nspawn --quiet --boot --directory="$root" --volatile=overlay "$@" --register=no --keep-unit \
    --machine="sync-bridge-$$" --bind-ro="$PWD:/project" --bind-ro="$bun:/usr/local/bin/bun" \
    --bind-ro="$(realpath "$package"):/release.deb" --bind="$results:/results" \
    --bind-ro="$results/trial.service:/etc/systemd/system/trial.service" \
    systemd.wants=trial.service >"$folder/boot.log" 2>&1 </dev/null &
  local machine=$!
  tail --pid=$machine -n +1 -f "$results/output"
  wait $machine || true
  grep -q '^all as expected$' "$results/output" || {
    echo "Not all was as expected. The machine printed:"
    tail -5 "$folder/boot.log"
    exit 1
  }
}

# A network namespace that can reach the internet, but not this machine.
unshare --net sleep infinity &
network+=($!)
slirp4netns --configure --disable-host-loopback "${network[0]}" tap0 >"$folder/network.log" 2>&1 &
network+=($!)
echo nameserver 10.0.2.3 >"$results/resolv.conf"
boot one-machine-inside.sh --network-namespace-path="/proc/${network[0]}/ns/net" --resolv-conf=off \
  --bind-ro="$results/resolv.conf:/etc/resolv.conf"

boot real-systemd-inside.sh --private-network

boot upgrade-inside.sh --private-network --bind-ro="$(realpath "$earlier"):/earlier.deb"
