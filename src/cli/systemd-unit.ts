import { isAbsolute, join } from 'node:path'

import { fileDescriptorsNeeded, readSettings } from '../settings/settings.ts'

import type { Host } from './host.ts'

/** Enough for settings that admit up to 16 256 requests at a time. */
const usualFileDescriptors = 65_536

const usualExecutable = '/usr/local/bin/sync-bridge'

/** A unit for systemd that runs this executable with the settings file, isolated from the rest of the machine. */
export function systemdUnit(path: string, host: Host): string {
  const settingsFile = isAbsolute(path) ? path : join(host.cwd, path)
  if (!host.standalone) {
    host.stderr.write(
      `warning: this is not the built executable: the unit names ${usualExecutable} instead\n`,
    )
  }
  return unit(
    host.standalone ? host.executablePath : usualExecutable,
    settingsFile,
    Math.max(usualFileDescriptors, neededBy(settingsFile, host)),
  )
}

/** A text in the form of a secret; nothing is encrypted with it. */
const anySecret = 'ab'.repeat(32)

/** How many files a process opens with these settings; 0 while they can't be read. */
function neededBy(path: string, host: Host): number {
  try {
    const outcome = readSettings({
      file: { path, text: host.readFile(path) },
      // The secret may be in a file of its own that only the service can read.
      environment: { SERVICE_CACHE_HMAC_SECRET: anySecret },
      readFile: host.readFile,
    })
    return 'settings' in outcome ? fileDescriptorsNeeded(outcome.settings) : 0
  } catch {
    return 0
  }
}

function unit(executable: string, settingsFile: string, fileDescriptors: number): string {
  const program = quoteArgument(executable)
  const file = quoteArgument(settingsFile)
  return `# Sync Bridge for systemd 250 or later. To install it:
#   sync-bridge systemd-unit > /etc/systemd/system/sync-bridge.service
#   move the value of service.cache_hmac_secret from the settings into a file of its own, mode 600:
#   /etc/sync-bridge/cache_hmac_secret
#   systemctl daemon-reload && systemctl enable --now sync-bridge
# The settings may be for the group alone (mode 640, group sync-bridge) where the user sync-bridge exists, which the
# Debian package makes. Without that user systemd invents one at each start, and the settings have to be readable for
# everybody.

[Unit]
Description=Sync Bridge
Wants=network-online.target
After=network-online.target
# However often it fails: a token server or an address that is missing may come back.
StartLimitIntervalSec=0

[Service]
Type=notify
ExecStart=${program} serve --config ${file}
# Bad settings make the reload fail. systemd hides the credentials from a reload, so this reads them as root from the source.
# For a new executable, or settings that need a new process, one takes over that listens before the old one goes.
ExecReload=+/usr/bin/env CREDENTIALS_DIRECTORY=/etc/sync-bridge ${program} check --offline --quiet --config ${file}
ExecReload=/bin/kill -HUP $MAINPID
LoadCredential=cache_hmac_secret:/etc/sync-bridge/cache_hmac_secret
User=sync-bridge
DynamicUser=yes
WorkingDirectory=/
UMask=0077

# All processes of the service together give one sign of life.
WatchdogSec=30
WatchdogSignal=SIGKILL
Restart=on-failure
# From 1 s to 60 s, growing in ten steps; before systemd 254 it is always 1 s.
RestartSec=1
RestartSteps=10
RestartMaxDelaySec=60
# Bad settings stay bad.
RestartPreventExitStatus=2
# Above service.shutdown_delay_seconds and service.shutdown_grace_seconds together.
TimeoutStopSec=45

# Variables that redirect, expose or replace the program before its own code begins.
UnsetEnvironment=BUN_BE_BUN BUN_OPTIONS BUN_INSPECT BUN_INSPECT_CONNECT_TO BUN_CONFIG_VERBOSE_FETCH NODE_OPTIONS
UnsetEnvironment=NODE_TLS_REJECT_UNAUTHORIZED NODE_EXTRA_CA_CERTS SSL_CERT_FILE SSL_CERT_DIR SSLKEYLOGFILE
UnsetEnvironment=HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy

LimitCORE=0
# For each process: two for each of service.max_concurrent_requests, one for each other connection that clients keep open.
LimitNOFILE=${fileDescriptors}
# All processes together; beyond that the kernel kills some of them. Enough for one worker and the successor that takes
# over, both under attack; add 512M and 64 tasks for every other worker.
MemoryMax=1G
TasksMax=128

NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
ProtectSystem=strict
ProtectHome=yes
# ProcSubset=pid would hide net.ipv4.tcp_migrate_req, which the service looks at when it starts.
ProtectProc=invisible
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
