#!/bin/bash
# Boots a small Debian under a real systemd and operates the service in it: install, start, crash, watchdog, reload, upgrade
# under load, removal. Run as root: tests/operate/real-systemd.sh [FOLDER]
# FOLDER keeps the Debian between runs (dist/systemd-machine by default). The Debian package is built if there is none.
set -eu
cd "$(dirname "$0")/../.."
folder=$(realpath -m "${1:-dist/systemd-machine}")
root=$folder/root
bun=$(readlink -f "$(command -v "${BUN:-bun}")")

for program in systemd-nspawn debootstrap; do
  command -v $program >/dev/null || {
    echo "$program is missing: apt-get install systemd-container debootstrap"
    exit 1
  }
done
if [ ! -e "$root/etc/debian_version" ]; then
  mkdir -p "$folder"
  debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,procps,ca-certificates \
    bookworm "$root.new" >"$folder/debootstrap.log" 2>&1 || {
    tail -5 "$folder/debootstrap.log"
    exit 1
  }
  mv "$root.new" "$root"
fi
package=$(ls dist/release/sync-bridge_*_amd64.deb 2>/dev/null || true)
if [ -z "$package" ]; then
  make -s dist >/dev/null
  package=$(ls dist/release/sync-bridge_*_amd64.deb)
fi

results=$(mktemp -d "$folder/results.XXXXXX")
trap 'rm -rf "$results"' EXIT
cat >"$results/trial.service" <<UNIT
[Unit]
After=multi-user.target
[Service]
Type=oneshot
TimeoutStartSec=600
ExecStart=/bin/bash /project/tests/operate/real-systemd-inside.sh
StandardOutput=file:/results/output
StandardError=file:/results/output
ExecStopPost=/bin/systemctl --no-block poweroff
UNIT

touch "$results/output"
systemd-nspawn --quiet --boot --directory="$root" --volatile=overlay --private-network --register=no --keep-unit \
  --machine="sync-bridge-$$" --bind-ro="$PWD:/project" --bind-ro="$bun:/usr/local/bin/bun" \
  --bind-ro="$(realpath "$package"):/release.deb" --bind="$results:/results" \
  --bind-ro="$results/trial.service:/etc/systemd/system/trial.service" \
  systemd.wants=trial.service >"$folder/boot.log" 2>&1 </dev/null &
machine=$!
tail --pid=$machine -n +1 -f "$results/output"
wait $machine || true
grep -q '^all as expected$' "$results/output"
