import { Glob } from 'bun'
import { chmodSync, copyFileSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { gzipSync } from 'node:zlib'

import { kernelSettings, prepareMachine, restartInstances, systemUser } from './package-scripts.ts'
import { run } from './run-command.ts'

import type { Architecture } from './container-image.ts'

interface DebianPackage {
  version: string
  architecture: Architecture
  /** The built executable. */
  executable: string
  unit: string
  exampleSettings: string
  /** The licences of everything in the executable. */
  licenses: string
  /** Files below usr/share/doc/sync-bridge, by name. */
  documents: Record<string, Uint8Array>
  changelog: string
  /** By file name. */
  manualPages: Record<string, string>
  /** Completions, by the paths where shells look. */
  completions: Record<string, string>
  /** The date of all files in it, in seconds since 1970. */
  epoch: number
  compression: 'xz' | 'gzip' | 'none'
}

/** Creates a Debian package at this path, bit for bit the same for the same contents. */
export async function makeDebianPackage(path: string, contents: DebianPackage): Promise<void> {
  const tree = `${path}.tree`
  rmSync(tree, { recursive: true, force: true })
  const write = (name: string, text: string | Uint8Array, mode = 0o644) => {
    const target = join(tree, name)
    mkdirSync(dirname(target), { recursive: true, mode: 0o755 })
    writeFileSync(target, text)
    chmodSync(target, mode)
  }
  const documents = 'usr/share/doc/sync-bridge'
  const compressed = (text: string) => gzipSync(text, { level: 9 })
  for (const [name, text] of Object.entries(scripts)) write(`DEBIAN/${name}`, text, 0o755)
  write('lib/systemd/system/sync-bridge.service', contents.unit)
  write('usr/lib/sysusers.d/sync-bridge.conf', systemUser)
  write('usr/lib/sysctl.d/60-sync-bridge.conf', kernelSettings)
  for (const [name, text] of Object.entries(contents.completions)) write(`usr/share/${name}`, text)
  for (const [name, text] of Object.entries(contents.manualPages))
    write(`usr/share/man/man1/${name}.gz`, compressed(text))
  write('usr/share/lintian/overrides/sync-bridge', lintianOverrides)
  // Not in the documentation folder, which some systems omit.
  write('usr/share/sync-bridge/sync-bridge.ini', contents.exampleSettings)
  write(`${documents}/copyright`, copyright)
  write(`${documents}/LICENSES.txt`, contents.licenses)
  write(`${documents}/changelog.gz`, compressed(contents.changelog))
  for (const [name, bytes] of Object.entries(contents.documents)) write(`${documents}/${name}`, bytes)
  mkdirSync(join(tree, 'usr/bin'), { recursive: true })
  copyFileSync(contents.executable, join(tree, 'usr/bin/sync-bridge'))
  chmodSync(join(tree, 'usr/bin/sync-bridge'), 0o755)
  // `dpkg --verify` uses these to find modified files.
  const files = [...new Glob('{usr,lib}/**/*').scanSync(tree)].toSorted()
  const sums = files.map((name) => `${md5(join(tree, name))}  ${name}\n`)
  write('DEBIAN/md5sums', sums.join(''))
  // apt shows this size before it installs.
  const sizesKib = files.map((name) => Math.ceil(statSync(join(tree, name)).size / 1024))
  const installedKib = sizesKib.reduce((total, kib) => total + kib, 0)
  write('DEBIAN/control', control(contents, installedKib))
  // The package must not depend on the builder's umask.
  await run(['find', tree, '-type', 'd', '-exec', 'chmod', '755', '{}', '+'])
  await run(['dpkg-deb', '--root-owner-group', `-Z${contents.compression}`, '--build', tree, path], {
    environment: { SOURCE_DATE_EPOCH: String(contents.epoch) },
  })
  rmSync(tree, { recursive: true, force: true })
}

function md5(path: string): string {
  return new Bun.CryptoHasher('md5').update(readFileSync(path)).digest('hex')
}

function control({ version, architecture }: DebianPackage, installedKib: number): string {
  return `Package: sync-bridge
Version: ${version}
Architecture: ${architecture}
Installed-Size: ${installedKib}
Maintainer: Sync Bridge developers <sync-bridge@localhost.localdomain>
Section: net
Priority: optional
Depends: libc6 (>= 2.17), systemd | systemd-sysusers
Recommends: ca-certificates
Suggests: redis-server
Description: record-storage REST access to Firefox Sync
 Serves the encrypted collections of a Firefox Sync 1.5 storage through the
 Kinto record-storage REST protocol. It never holds the encryption key.
`
}

const copyright = `Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: sync-bridge

Files: *
Copyright: the authors of Sync Bridge
License: MPL-2.0
 On Debian systems the text is in /usr/share/common-licenses/MPL-2.0.
Comment:
 The executable contains the runtime Bun (MIT), which is linked to JavaScriptCore
 (LGPL-2, see /usr/share/common-licenses/LGPL-2), and packages under other
 licences: LICENSES.txt in this folder has their names and texts.
`

// The executable is the runtime with the program appended, which stripping would remove. There is no mail address of all maintainers.
const lintianOverrides = `sync-bridge: bogus-mail-host Maintainer sync-bridge@localhost.localdomain
sync-bridge: bogus-mail-host-in-debian-changelog *
sync-bridge: unstripped-binary-or-object [usr/bin/sync-bridge]
sync-bridge: hardening-no-relro [usr/bin/sync-bridge]
sync-bridge: hardening-no-pie [usr/bin/sync-bridge]
sync-bridge: embedded-library *
sync-bridge: maintainer-script-calls-systemctl *
sync-bridge: copyright-without-copyright-notice
`

// A package that is installed into a folder must not change users, files and services of this machine.
const scripts = {
  postinst: `#!/bin/sh
set -e
if [ "$1" = configure ] && [ -z "$DPKG_ROOT" ]; then
${prepareMachine}
${restartInstances('dpkg --configure sync-bridge')}fi
`,
  prerm: `#!/bin/sh
set -e
if [ "$1" = remove ] && [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
  systemctl -q disable --now sync-bridge.service || true
fi
`,
  postrm: `#!/bin/sh
set -e
if [ -z "$DPKG_ROOT" ]; then
  if [ "$1" = purge ]; then
    rm -rf /etc/sync-bridge
    if getent passwd sync-bridge >/dev/null; then userdel sync-bridge >/dev/null 2>&1 || true; fi
  fi
  if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
fi
`,
}
