#!/bin/bash
# real-systemd.sh runs this inside the machine.
set -u
. /project/tests/operate/systemd-steps.sh

# A minimal Debian has no procps, and only this test needs some of its programs.
rm -f /bin/kill

echo "systemd $(systemctl --version | awk 'NR == 1 { print $2 }'), Linux $(uname -r)"
expect 'the package is installed' dpkg -i /release.deb
expect 'the secret is for root alone' is_mode /etc/sync-bridge/cache_hmac_secret '600 root:root'
expect 'the settings are for root and the service' is_mode $ini '640 root:sync-bridge'
expect 'the kernel moves waiting connections' [ "$(cat /proc/sys/net/ipv4/tcp_migrate_req)" = 1 ]

start_upstream
expect 'settings that lack the token server stop the start' bash -c '! systemctl start sync-bridge'
systemctl reset-failed sync-bridge
set_setting token_server_url "$TOKEN_SERVER_URL"
set_setting cache_backend memory
set_setting max_concurrent_requests_per_user 0
for collection in $(seq 0 39); do set_setting "record_restarts${collection}_put_enabled" true; done
expect 'it is started' systemctl enable --now sync-bridge
expect 'it runs as its own user' pgrep -u sync-bridge sync-bridge
expect 'its threads do not interrupt one another' is_scheduled "$(main_pid)" BATCH
expect 'it answers' alive
expect 'nothing is warned of' bash -c '! journalctl -q -o cat -u sync-bridge | grep -v "Firefox has no collection" | grep -E "warning|reset"'
expect 'the journal knows its level' [ "$(journalctl -q -u sync-bridge -p info..info -o cat | grep -c '"event":"listening"')" = 1 ]

expect 'its runtime has its slots' grep -qzx 'BUN_CONFIG_MAX_HTTP_REQUESTS=1024' "/proc/$(main_pid)/environ"

before=$(main_pid)
kill -9 "$before"
expect 'after a crash it is started again' until_true another_process "$before"
expect 'and answers' until_true alive
before=$(main_pid)
kill -STOP "$before"
expect 'when it hangs the watchdog has it started again' until_true another_process "$before"
expect 'and it answers' until_true alive

before=$(main_pid)
set_setting backoff 77
expect 'a reload is followed' systemctl reload sync-bridge
expect 'by what it answers' until_true answers_with backoff 77
expect 'and by no new process' [ "$(main_pid)" = "$before" ]
expect 'and the log names what has changed' logged '"changed":"backoff"'
set_setting backoff much
expect 'a reload with bad settings fails' bash -c '! systemctl reload sync-bridge'
expect 'and the journal tells why' logged 'service.backoff'
expect 'and the old ones stay' answers_with backoff 77
set_setting backoff 5
set_setting batch_max_requests 30
expect 'a reload with settings for a new process' systemctl reload sync-bridge
expect 'names them' until_true logged '"settings":"batch_max_requests"'
expect 'and starts no process' [ "$(main_pid)" = "$before" ]
expect 'and applies the others' until_true answers_with backoff 5
sed -i '/^service\.backoff/d' $ini
systemctl reload sync-bridge

upgrade() { dpkg -i /release.deb; }
before=$(main_pid)
expect 'an upgrade of the package' upgrade
expect 'restarts the service' another_process "$before"
before=$(main_pid)
set_setting backoff much
expect 'an upgrade with bad settings fails' bash -c '! dpkg -i /release.deb 2>/tmp/upgrade'
expect 'and says so' grep -q '^The new sync-bridge does not run' /tmp/upgrade
expect 'and the old process continues' [ "$(main_pid)" = "$before" ]
sed -i '/^service\.backoff/d' $ini
expect 'when it is tried again it takes' dpkg --configure sync-bridge
before=$(restarts)
set_setting workers 2
set_setting worker_timeout_seconds 2
systemctl restart sync-bridge
expect 'two workers and their supervisor run' until_true settled 3
hung=$(pgrep -P "$(main_pid)" | head -1)
kill -STOP "$hung"
expect 'a worker that hangs is killed' until_true logged "worker hangs.*$hung"
expect 'and replaced' until_true settled 3
expect 'without a restart of the service' [ "$(restarts)" = "$before" ]
expect 'the journal has no complaint of systemd' no_complaint

under_load 'a restart refuses connections for a moment' yes 1 systemctl restart sync-bridge

# The commands of docs/scale.md. The minimal Debian has no sudo.
sudo() { "$@"; }
block() { # the commands of the block with that number
  awk -v number="$1" '/^### Without a gap/ { found = 1 } /^```$/ { inside = 0 } inside && count == number
    found && /^```sh$/ { inside = 1; count++ }' /project/docs/scale.md
}
set_setting workers 1
set_setting reuse_port true
set_setting shutdown_delay_seconds 1
expect 'an instance of a template is started' eval "$(block 1)"
expect 'and answers' until_true alive
exchange() { # starts the instance that does not run, then stops the other one
  local commands
  commands=$(block 2)
  if systemctl -q is-active sync-bridge@b; then
    commands=$(sed 's/@a$/@x/; s/@b$/@a/; s/@x$/@b/' <<<"$commands")
  fi
  eval "$commands"
}
under_load 'exchanging the instance loses no connection' no 5 exchange
systemctl start sync-bridge@a sync-bridge@b
under_load 'nor does an upgrade of the package with two instances' no 3 upgrade
systemctl stop sync-bridge@b
echo 0 >/proc/sys/net/ipv4/tcp_migrate_req
systemctl restart sync-bridge@a
expect 'a start warns where connections can be reset' until_true bash -c 'journalctl -q -o cat -u sync-bridge@a | grep -q "a stop can reset connections"'
systemctl disable --now sync-bridge@a
rm /etc/systemd/system/sync-bridge@.service
systemctl daemon-reload
sed -i '/^service\.reuse_port/d; /^service\.shutdown_delay_seconds/d' $ini
systemctl start sync-bridge

expect 'it is stopped' systemctl stop sync-bridge
# With cgroup v1 in a container, systemd does not wait for a process that it did not start itself.
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
  expect 'with success' [ "$(systemctl show -P Result sync-bridge)" = success ]
fi
expect 'the package is purged' dpkg --purge sync-bridge
expect 'and leaves nothing' bash -c '! ls -d /etc/sync-bridge /usr/bin/sync-bridge && ! getent passwd sync-bridge'

finish
