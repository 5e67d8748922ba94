// What the Debian and RPM packages do on the machine, as sh scripts.

/** Creates the user, the secret and the settings, if missing. */
export const prepareMachine = `  systemd-sysusers /usr/lib/sysusers.d/sync-bridge.conf
  /lib/systemd/systemd-sysctl 60-sync-bridge.conf 2>/dev/null || true

  folder=/etc/sync-bridge
  [ -d $folder ] || install -d -m 755 $folder
  if [ ! -e $folder/cache_hmac_secret ]; then
    (umask 077 && od -An -N32 -tx1 /dev/urandom | tr -d ' \\n' >$folder/cache_hmac_secret)
  fi
  if [ ! -e $folder/sync-bridge.ini ]; then
    install -m 640 -o root -g sync-bridge /usr/share/sync-bridge/sync-bridge.ini $folder/sync-bridge.ini
  fi
`

/** Lets the new executable take over from the running one. `again` is the command to retry. */
export function takeOver(again: string): string {
  return `  if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    # The new executable takes over from the running one. The reload only asks for that, so its success is checked.
    if systemctl -q is-active sync-bridge.service; then
      runs_new() { [ "/proc/$(systemctl show --property MainPID --value sync-bridge.service)/exe" -ef /usr/bin/sync-bridge ]; }
      tries=0
      if systemctl reload sync-bridge.service; then tries=200; fi
      until runs_new; do
        if [ $tries = 0 ]; then
          echo "The old sync-bridge still runs: journalctl -u sync-bridge has the reason, ${again} tries again" >&2
          exit 1
        fi
        tries=$((tries - 1))
        sleep 0.2
      done
    fi
  fi
`
}

export const systemUser = '# May read the settings in /etc/sync-bridge.\nu sync-bridge - "Sync Bridge"\n'

export const kernelSettings = `# A process of sync-bridge that takes over from another one gets the connections that wait in its queue; without this they
# are reset.
net.ipv4.tcp_migrate_req = 1
`
