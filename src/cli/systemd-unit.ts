import { isAbsolute, join } from 'node:path'

import type { Host } from './host.ts'

const usualExecutable = '/usr/local/bin/sync-bridge'

/** A unit for systemd that runs this executable with the settings file, shut off from the rest of the machine. */
export function systemdUnit(path: string, host: Host): string {
  const settingsFile = isAbsolute(path) ? path : join(host.cwd, path)
  if (!host.standalone) {
    host.stderr.write(
      `warning: this is not the built executable: the unit names ${usualExecutable} instead\n`,
    )
  }
  return unit(host.standalone ? host.executablePath : usualExecutable, settingsFile)
}

function unit(executable: string, settingsFile: string): string {
  return `# Sync Bridge for systemd 250 or later. To install it:
#   sync-bridge systemd-unit > /etc/systemd/system/sync-bridge.service
#   move the value of service.cache_hmac_secret from the settings into a file of its own, mode 600:
#   /etc/sync-bridge/cache_hmac_secret; what is left of the settings has to be readable for everybody
#   systemctl daemon-reload && systemctl enable --now sync-bridge

[Unit]
Description=Sync Bridge
Wants=network-online.target
After=network-online.target

[Service]
Type=notify
WatchdogSec=30
ExecStart=${quoteArgument(executable)} serve --config ${quoteArgument(settingsFile)}
ExecReload=/bin/kill -HUP $MAINPID
LoadCredential=cache_hmac_secret:/etc/sync-bridge/cache_hmac_secret
DynamicUser=yes
WorkingDirectory=/
UMask=0077

Restart=on-failure
RestartSec=1
# Bad settings stay bad.
RestartPreventExitStatus=2
# Above service.shutdown_delay_seconds and service.shutdown_grace_seconds together.
TimeoutStopSec=45

# Variables that redirect, expose or replace the program before its own code begins.
UnsetEnvironment=BUN_BE_BUN BUN_OPTIONS BUN_INSPECT BUN_INSPECT_CONNECT_TO BUN_CONFIG_VERBOSE_FETCH NODE_OPTIONS
UnsetEnvironment=NODE_TLS_REJECT_UNAUTHORIZED NODE_EXTRA_CA_CERTS SSL_CERT_FILE SSL_CERT_DIR SSLKEYLOGFILE
UnsetEnvironment=HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy

LimitCORE=0
LimitNOFILE=65536
# For one worker; add 256M and 32 tasks for every other one.
MemoryMax=512M
TasksMax=128

NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
ProtectSystem=strict
ProtectHome=yes
ProtectProc=invisible
ProcSubset=pid
ProtectClock=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectControlGroups=yes
PrivateTmp=yes
PrivateDevices=yes
PrivateUsers=yes
PrivateMounts=yes
DevicePolicy=closed
KeyringMode=private
RemoveIPC=yes
LockPersonality=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
SystemCallErrorNumber=EPERM
# All but link-local addresses, where clouds hand out the machine's own credentials. Better still: replace the list
# by localhost and the addresses of clients, token server, storage and Redis.
IPAddressDeny=any
IPAddressAllow=0.0.0.0/1 128.0.0.0/3 160.0.0.0/5 168.0.0.0/8 169.0.0.0/9 169.128.0.0/10 169.192.0.0/11 169.224.0.0/12
IPAddressAllow=169.240.0.0/13 169.248.0.0/14 169.252.0.0/15 169.255.0.0/16 170.0.0.0/7 172.0.0.0/6 176.0.0.0/4
IPAddressAllow=192.0.0.0/3 ::1 2000::/3 64:ff9b::/96 fc00::/7
# MemoryDenyWriteExecute= is left out: JavaScript is compiled to machine code while it runs, and is some
# 16 times slower when that is forbidden.

[Install]
WantedBy=multi-user.target
`
}

/** See systemd.service(5), "Command lines": quotes, % and $ have meanings of their own. */
function quoteArgument(argument: string): string {
  const escaped = argument.replaceAll('%', '%%').replaceAll('$', () => '$$')
  if (/^[\w./@:+,=%$-]+$/.test(escaped)) return escaped
  return `"${escaped.replace(/["\\]/g, '\\$&')}"`
}
