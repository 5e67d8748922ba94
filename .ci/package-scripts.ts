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

/** Restarts the running instances, one after the other. `again` is the command to retry. */
export function restartInstances(again: string): string {
  return `  if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    for unit in $(systemctl list-units --plain --no-legend --state=active sync-bridge.service 'sync-bridge@*.service' | cut -d ' ' -f 1); do
      # The reload checks the settings with the new executable.
      if ! systemctl reload "$unit" || ! systemctl restart "$unit"; then
        echo "The new sync-bridge does not run: journalctl -u $unit has the reason, ${again} tries again" >&2
        exit 1
      fi
    done
  fi
`
}

export const systemUser = '# May read the settings in /etc/sync-bridge.\nu sync-bridge - "Sync Bridge"\n'

export const kernelSettings = `# When one of several sync-bridges at a port stops, another one gets the connections that wait in its queue; without this
# they are reset.
net.ipv4.tcp_migrate_req = 1
`
