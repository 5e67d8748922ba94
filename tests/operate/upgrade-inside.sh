#!/bin/bash
# real-systemd.sh runs this inside the last machine: upgrades 0.1.0 to this version under load, and goes back.
set -u
. /project/tests/operate/systemd-steps.sh

secret=/etc/sync-bridge/cache_hmac_secret
sums() { sha256sum $ini $secret && stat -c '%a %U:%G %n' $ini $secret; }
is_kept() { [ "$(sums)" = "$kept" ]; }
runs_version() { bun -e "process.exit((await (await fetch('http://127.0.0.1:8000/v1/__version__')).json()).version === '$1' ? 0 : 1)"; }
warnings() { journalctl -q -o cat -u sync-bridge | grep -c 'max_event_loop_lag_ms: this setting is gone'; }
current=$(dpkg-deb --field /release.deb Version)

expect 'version 0.1.0 is installed' dpkg -i /earlier.deb
start_upstream
systemd-run -q --unit=cache redis-server --port 6380 --save '' --dir /tmp
set_setting token_server_url "$TOKEN_SERVER_URL"
set_setting cache_backend redis
set_setting cache_url redis://127.0.0.1:6380/0
set_setting max_concurrent_requests_per_user 0
set_setting max_event_loop_lag_ms 250
set_setting backoff 77
for collection in $(seq 0 39); do set_setting "record_restarts${collection}_put_enabled" true; done
chmod 640 $ini && chgrp sync-bridge $ini
kept=$(sums)
expect 'it is started' systemctl enable --now sync-bridge
expect 'it answers' until_true alive
expect 'as 0.1.0' runs_version 0.1.0
expect 'and warns of the setting that is gone' [ "$(warnings)" -ge 1 ]
crashes=$(restarts)

before=$(main_pid)
warned=$(warnings)
under_load "the upgrade to $current restarts the service" yes 1 dpkg -i /release.deb
expect 'another process runs' another_process "$before"
expect "of $current" runs_version "$current"
expect 'alone, once the old one has ended' until_true settled 1
expect 'no setting and no secret is lost' is_kept
expect 'the settings count' answers_with backoff 77
expect 'it warns of the setting that is gone, too' [ "$(warnings)" -gt "$warned" ]

before=$(main_pid)
# The package of 0.1.0 reloads a running service, which replaced itself.
expect 'the way back to 0.1.0' bash -c 'systemctl stop sync-bridge && dpkg -i /earlier.deb && systemctl start sync-bridge'
expect 'it answers' until_true alive
expect 'another process runs' another_process "$before"
expect 'of 0.1.0' runs_version 0.1.0
expect 'alone, once the new one has ended' until_true settled 1
expect 'no setting and no secret is lost' is_kept
expect 'the settings count' answers_with backoff 77

expect "the upgrade to $current, once more" dpkg -i /release.deb
expect 'it runs' runs_version "$current"
expect 'and was never started again' [ "$(restarts)" = "$crashes" ]
expect 'the journal has no complaint of systemd' no_complaint
expect 'the package is purged' dpkg --purge sync-bridge
expect 'and leaves nothing' bash -c '! ls -d /etc/sync-bridge /usr/bin/sync-bridge && ! getent passwd sync-bridge'

finish
