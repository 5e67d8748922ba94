/** What a machine may lack. Tests that need it are skipped then. `bun tests/support/machine.ts` prints what is missing here. */
import { closeSync, openSync } from 'node:fs'
import { networkInterfaces } from 'node:os'
import { words } from './processes.ts'

/** `/dev/pts` is not mounted, as in the root folder that debootstrap makes. */
export const hasNoTerminals = !canOpenTerminal()

/** No interface has the address ::1, as in many containers. */
export const hasNoIpv6 = !Object.values(networkInterfaces()).some((of) =>
  of?.some(({ address }) => address === '::1'),
)

/** An ordinary user must not create namespaces, as within a chroot. */
export const hasNoNamespaces =
  Bun.which('unshare') === null ||
  Bun.spawnSync(words`unshare --map-root-user --mount --pid --fork --kill-child true`).exitCode !== 0

if (import.meta.main) {
  if (hasNoTerminals) process.stdout.write('Terminals are missing: /dev/pts is not mounted\n')
  if (hasNoIpv6) process.stdout.write('IPv6 is missing: no interface has the address ::1\n')
  if (hasNoNamespaces) process.stdout.write('Namespaces are missing: this user must not create them here\n')
}

function canOpenTerminal(): boolean {
  try {
    closeSync(openSync('/dev/ptmx', 'r+'))
    return true
  } catch {
    return false
  }
}
