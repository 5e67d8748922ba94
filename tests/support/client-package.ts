import { copyFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { makeFolder } from './executable.ts'
import { runProgram } from './processes.ts'

const path = Bun.which('node')
const nodeVersion = path ? Bun.spawnSync([path, '--version']).stdout.toString().trim() : 'none'
// Debian 12 has Node 18, which has no Web Crypto by default.
const isRecent = Number(nodeVersion.match(/\d+/)?.[0]) >= 20

/** The path of Node, or why a test can't run with it. */
export const node: { path: string } | { reason: string } =
  isRecent && Bun.which('npm') !== null
    ? { path: path! }
    : { reason: `Node 20 or later is needed, and npm; this is ${nodeVersion}` }

const dist = join(import.meta.dir, '../../dist')

/** The JavaScript package as built by `make client`, once for all tests. Throws with the remedy if there is none. */
export function clientPackage(): { folder: string; tarball: string } {
  const { version } = JSON.parse(readFileSync(join(dist, '../package.json'), 'utf8'))
  const tarball = join(dist, `sync-bridge-client-${version}.tgz`)
  if (!existsSync(tarball)) throw new Error(`There is no "${tarball}": run "make client" first`)
  return { folder: join(dist, 'client'), tarball }
}

/** A fresh project with these files, in which npm has installed the package from its tarball. */
export async function projectWithClient(
  files: Record<string, string>,
  manifest: object = {},
): Promise<string> {
  const { tarball } = clientPackage()
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
