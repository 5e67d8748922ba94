import { copyFileSync, existsSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { makeClientPackage } from '../../.ci/javascript-client.ts'
import { makeFolder } from './executable.ts'
import { runProgram } from './processes.ts'

const path = Bun.which('node')
const version = path ? Bun.spawnSync([path, '--version']).stdout.toString().trim() : 'none'
// Debian 12 has Node 18, which has no Web Crypto by default.
const isRecent = Number(version.match(/\d+/)?.[0]) >= 20

/** The path of Node, or why a test can't run with it. */
export const node: { path: string } | { reason: string } =
  isRecent && Bun.which('npm') !== null
    ? { path: path! }
    : { reason: `Node 20 or later is needed, and npm; this is ${version}` }

let made: Promise<{ folder: string; tarball: string }> | null = null

/** The JavaScript package as built by `make client`, once for all tests of a file. */
export async function clientPackage(): Promise<{ folder: string; tarball: string }> {
  const known = await made
  // The folders of one file's tests are removed before those of the next.
  if (known === null || !existsSync(known.tarball)) made = build()
  return (await made)!
}

async function build(): Promise<{ folder: string; tarball: string }> {
  const folder = makeFolder()
  return { tarball: await makeClientPackage(folder), folder: join(folder, 'client') }
}

/** A fresh project with these files, in which npm has installed the package from its tarball. */
export async function projectWithClient(
  files: Record<string, string>,
  manifest: object = {},
): Promise<string> {
  const { tarball } = await clientPackage()
  const cwd = makeFolder(files)
  writeFileSync(
    join(cwd, 'package.json'),
    JSON.stringify({ name: 'fresh', version: '1.0.0', private: true, ...manifest }),
  )
  copyFileSync(tarball, join(cwd, basename(tarball)))
  const npm = ['npm', 'install', '--offline', '--no-audit', '--no-fund', `./${basename(tarball)}`] as const
  const PATH = [dirname(path!), '/usr/local/bin', '/usr/bin', '/bin'].join(':')
  await runProgram([...npm], { cwd, environment: { PATH, HOME: cwd, npm_config_update_notifier: 'false' } })
  return cwd
}
