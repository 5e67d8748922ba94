import { Glob } from 'bun'
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'

import { kernelSettings, prepareMachine, restartInstances, systemUser } from './package-scripts.ts'
import { run } from './run-command.ts'

import type { Architecture } from './container-image.ts'

interface RpmPackage {
  version: string
  architecture: Architecture
  license: string
  /** The built executable. */
  executable: string
  unit: string
  exampleSettings: string
  /** Documents, manual pages and completions, by their paths below usr/share. */
  shared: Record<string, string | Uint8Array>
  /** The date of all files in it, in seconds since 1970. */
  epoch: number
  isCompressed: boolean
}

/** RPM's name of an architecture. */
export const rpmArchitectures: Record<Architecture, string> = { amd64: 'x86_64', arm64: 'aarch64' }

/** Creates an RPM package at this path, bit for bit the same for the same contents. */
export async function makeRpmPackage(path: string, contents: RpmPackage): Promise<void> {
  const work = mkdtempSync(join(tmpdir(), 'sync-bridge-rpm-'))
  try {
    const tree = join(work, 'tree')
    const write = (name: string, text: string | Uint8Array) => {
      mkdirSync(dirname(join(tree, name)), { recursive: true })
      writeFileSync(join(tree, name), text)
      chmodSync(join(tree, name), 0o644)
      return `/${name}`
    }
    const files = [
      write('usr/lib/systemd/system/sync-bridge.service', contents.unit),
      write('usr/lib/sysusers.d/sync-bridge.conf', systemUser),
      write('usr/lib/sysctl.d/60-sync-bridge.conf', kernelSettings),
      write('usr/share/sync-bridge/sync-bridge.ini', contents.exampleSettings),
      ...Object.entries(contents.shared).map(([name, bytes]) => write(`usr/share/${name}`, bytes)),
      '%attr(755, root, root) /usr/bin/sync-bridge',
    ]
    // A folder that the package does not own remains after its removal.
    const ours = /\/sync-bridge(\/|$)/
    const folders = new Glob('usr/share/**').scanSync({ cwd: tree, onlyFiles: false })
    for (const name of folders)
      if (ours.test(`/${name}`) && statSync(join(tree, name)).isDirectory()) files.push(`%dir /${name}`)
    mkdirSync(join(tree, 'usr/bin'))
    copyFileSync(contents.executable, join(tree, 'usr/bin/sync-bridge'))
    const date = `@${contents.epoch}`
    await run(['find', tree, '-exec', 'touch', '-h', '-d', date, '{}', '+'])
    writeFileSync(join(work, 'sync-bridge.spec'), spec(contents, tree, files))
    const architecture = rpmArchitectures[contents.architecture]
    const command = ['rpmbuild', '-bb', '--quiet', '--nodeps', '--target', `${architecture}-linux`]
    await run([...command, join(work, 'sync-bridge.spec')], {
      environment: { SOURCE_DATE_EPOCH: String(contents.epoch), HOME: work },
    })
    const name = `sync-bridge-${contents.version}-1.${architecture}.rpm`
    copyFileSync(join(work, 'rpms', architecture, name), resolve(path))
  } finally {
    rmSync(work, { recursive: true })
  }
}

// The executable is the runtime with the program appended, which stripping would remove.
function spec({ version, license, epoch, isCompressed }: RpmPackage, tree: string, files: string[]): string {
  return `%define _topdir ${dirname(tree)}
%define _rpmdir ${dirname(tree)}/rpms
%define _buildhost localhost
%define use_source_date_epoch_as_buildtime 1
%define clamp_mtime_to_source_date_epoch 1
%define source_date_epoch_from_changelog 0
%define _build_id_links none
%define debug_package %{nil}
%define __os_install_post %{nil}
%define optflags %{nil}
%define _binary_payload ${isCompressed ? 'w10.zstdio' : 'w0.ufdio'}
Name: sync-bridge
Version: ${version}
Release: 1
Summary: Record-storage REST access to Firefox Sync
License: ${license}
AutoReqProv: no
Requires: systemd

%description
Serves the encrypted collections of a Firefox Sync 1.5 storage through the
Kinto record-storage REST protocol. It never holds the encryption key.

%install
cp -a ${tree}/. %{buildroot}/

%post
set -e
${prepareMachine}
${restartInstances('systemctl restart sync-bridge')}
%preun
if [ "$1" = 0 ] && [ -d /run/systemd/system ]; then
  systemctl -q disable --now sync-bridge.service || true
fi

%postun
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi

%files
%defattr(644, root, root, 755)
${files.join('\n')}

%changelog
* ${rpmDate(epoch)} Sync Bridge developers <sync-bridge@localhost.localdomain> - ${version}-1
- Released; CHANGELOG.md in the documents tells what has changed.
`
}

// As in "Fri Nov 27 2026".
function rpmDate(epoch: number): string {
  const [weekday, day, month, year] = new Date(epoch * 1000).toUTCString().split(/,? /)
  return `${weekday} ${month} ${day} ${year}`
}
