import { chmodSync, copyFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

import { run } from './run-command.ts'

export interface DebianPackage {
  version: string
  architecture: 'amd64' | 'arm64'
  /** The built executable. */
  executable: string
  unit: string
  exampleSettings: string
  licenses: string
  /** Files below usr/share/doc/sync-bridge, by name. */
  documents: Record<string, string>
  /** Seconds since 1970 that all files in it are dated. */
  epoch: number
  compression: 'xz' | 'none'
}

/** Makes a Debian package of it at this path, bit for bit the same for the same contents. */
export async function makeDebianPackage(path: string, contents: DebianPackage): Promise<void> {
  const tree = `${path}.tree`
  rmSync(tree, { recursive: true, force: true })
  const write = (name: string, text: string, mode = 0o644) => {
    const target = join(tree, name)
    mkdirSync(dirname(target), { recursive: true, mode: 0o755 })
    writeFileSync(target, text)
    chmodSync(target, mode)
  }
  const documents = 'usr/share/doc/sync-bridge'
  write('DEBIAN/control', control(contents))
  for (const [name, text] of Object.entries(scripts)) write(`DEBIAN/${name}`, text, 0o755)
  write('lib/systemd/system/sync-bridge.service', contents.unit)
  write(`${documents}/examples/sync-bridge.ini`, contents.exampleSettings)
  write(`${documents}/copyright`, contents.licenses)
  for (const [name, text] of Object.entries(contents.documents)) write(`${documents}/${name}`, text)
  mkdirSync(join(tree, 'etc/sync-bridge'), { recursive: true })
  mkdirSync(join(tree, 'usr/bin'), { recursive: true })
  copyFileSync(contents.executable, join(tree, 'usr/bin/sync-bridge'))
  chmodSync(join(tree, 'usr/bin/sync-bridge'), 0o755)
  // The mask of whoever builds this must not be seen in it.
  await run(['find', tree, '-type', 'd', '-exec', 'chmod', '755', '{}', '+'])
  await run(['dpkg-deb', '--root-owner-group', `-Z${contents.compression}`, '--build', tree, path], {
    environment: { SOURCE_DATE_EPOCH: String(contents.epoch) },
  })
  rmSync(tree, { recursive: true, force: true })
}

function control({ version, architecture }: DebianPackage): string {
  return `Package: sync-bridge
Version: ${version}
Architecture: ${architecture}
Maintainer: Sync Bridge developers <sync-bridge@localhost>
Section: net
Priority: optional
Depends: libc6 (>= 2.17)
Suggests: redis-server
Description: record-storage REST access to Firefox Sync
 Serves the encrypted collections of a Firefox Sync 1.5 storage through the
 Kinto record-storage REST protocol. It never holds the encryption key.
`
}

// A package that is installed into a folder leaves the services of this machine alone.
const scripts = {
  postinst: `#!/bin/sh
set -e
if [ "$1" = configure ] && [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  systemctl try-restart sync-bridge.service || true
fi
`,
  prerm: `#!/bin/sh
set -e
if [ "$1" = remove ] && [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
  systemctl disable --now sync-bridge.service || true
fi
`,
  postrm: `#!/bin/sh
set -e
if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
`,
}
