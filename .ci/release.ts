// Creates a release, or only the Debian package for this machine: `bun .ci/release.ts dist|deb FOLDER BUILD-FLAGS…`, which `make dist` and
// `make deb` run.
import {
  copyFileSync,
  createReadStream,
  createWriteStream,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { createGzip, gzipSync } from 'node:zlib'

import { Glob } from 'bun'
import { completionScript } from '../src/cli/completion.ts'
import { createProgram } from '../src/cli/run.ts'
import { defaultSettingsFile, systemdUnit } from '../src/cli/service/systemd-unit.ts'
import { annotatedIni } from '../src/settings/settings-text.ts'
import { archive } from './archive.ts'
import { imageNeeds, makeContainerImage, type Architecture } from './container-image.ts'
import { makeDebianPackage } from './debian.ts'
import { documents } from './documents.ts'
import { makeClientPackage } from './javascript-client.ts'
import { licenseList } from './licenses.ts'
import { manualPages } from './manual-page.ts'
import { packageRecipes } from './package-recipes.ts'
import { shippedPackages } from './packages.ts'
import { makeRpmPackage, rpmArchitectures } from './rpm.ts'
import { run } from './run-command.ts'
import { sbom, type Product } from './sbom.ts'
import { withSigner, type Signer } from './signature.ts'

import type { Host } from '../src/cli/host.ts'

/** The executables to build, by the runtime's name of the platform. */
export const platforms = [
  'linux-x64',
  'linux-arm64',
  'linux-x64-musl',
  'linux-arm64-musl',
  'darwin-x64',
  'darwin-arm64',
] as const

type Platform = (typeof platforms)[number]

/** The platforms with packages and a container image. */
const packaged: Partial<Record<Platform, Architecture>> = { 'linux-x64': 'amd64', 'linux-arm64': 'arm64' }

interface ReleaseOptions {
  /** Created if missing, and emptied if not. */
  folder: string
  /** Flags of the runtime's `build`, without target and output. */
  buildFlags: string[]
  platforms: readonly Platform[]
  compression: 'best' | 'none'
  /** The client packages, by path. */
  clientPackages: string[]
  /** Without a signature, users can't verify who created the release. */
  signer: Signer | null
  /** Where the files will be published, for the recipes of package managers. */
  url: string
}

const project = join(import.meta.dir, '..')

/**
 * Creates executables, packages, container images, the installer's files, the lists of their contents, and the checksums of everything with
 * their signature. The same sources result in the same files, anywhere and at any time.
 */
export async function release(options: ReleaseOptions): Promise<void> {
  const { folder, compression, signer } = options
  const product = readProduct()
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  const packages = shippedPackages(project)
  writeFileSync(join(folder, 'sbom.cdx.json'), sbom(product, packages))
  writeFileSync(join(folder, 'LICENSES.txt'), licenseList(product, packages))
  copyFileSync(join(project, 'install.sh'), join(folder, 'install.sh'))
  for (const path of options.clientPackages) copyFileSync(path, join(folder, basename(path)))
  if (signer) writeFileSync(join(folder, 'allowed_signers'), signer.allowedSigners)
  // First, because it downloads the runtimes of other platforms.
  const executables = new Map<Platform, string>()
  for (const platform of options.platforms) executables.set(platform, await build(options, platform))
  const compressions: Promise<void>[] = []
  const epoch = await commitEpoch()
  await makeShareArchive(join(folder, `${product.name}-${product.version}-share.tar.gz`), epoch)
  for (const [platform, executable] of executables) {
    const base = join(folder, `${product.name}-${product.version}-${platform}`)
    const architecture = packaged[platform]
    say(`Packing ${platform}`)
    if (architecture !== undefined) {
      await makePackage(folder, architecture, executable, compression === 'best' ? 'xz' : 'none')
      const rpm = `${product.name}-${product.version}-1.${rpmArchitectures[architecture]}.rpm`
      await makeRpmPackage(join(folder, rpm), {
        ...product,
        architecture,
        executable,
        unit: unitText(),
        exampleSettings: exampleSettings(),
        shared: sharedFiles(epoch),
        epoch,
        isCompressed: compression === 'best',
      })
      await makeContainerImage(join(folder, `${product.name}-${product.version}-oci-${architecture}.tar`), {
        ...product,
        architecture,
        commit: await commitName(),
        executable,
        epoch,
        isCompressed: compression === 'best',
      })
    }
    compressions.push(compress(executable, base, compression))
  }
  say('Compressing the executables')
  await Promise.all(compressions)
  for (const platform of options.platforms) rmSync(join(folder, platform), { recursive: true })
  const sums = sumsIn(folder)
  for (const [name, text] of Object.entries(packageRecipes({ ...product, url: options.url, sums }))) {
    writeFileSync(join(folder, name), text)
    sums[name] = sha256(join(folder, name))
  }
  const lines = Object.keys(sums).toSorted()
  writeFileSync(join(folder, 'SHA256SUMS'), lines.map((name) => `${sums[name]}  ${name}\n`).join(''))
  await signer?.sign(join(folder, 'SHA256SUMS'))
}

/** Creates the tarball for npm and the wheel in a folder; resolves to their paths. */
async function makeClientPackages(folder: string): Promise<string[]> {
  say('Building the packages for JavaScript and Python')
  await run([process.execPath, join(project, '.ci/python-client.ts'), folder])
  await makeClientPackage(folder)
  return [...new Glob('*.{tgz,whl}').scanSync({ cwd: folder, absolute: true })].toSorted()
}

/** Documents, manual pages and completions, by their paths below share. */
function sharedFiles(epoch: number): Record<string, string | Uint8Array> {
  const { version } = readProduct()
  const prefixed = (prefix: string, files: [string, string | Uint8Array][]) =>
    files.map(([name, bytes]): [string, string | Uint8Array] => [prefix + name, bytes])
  const pages = Object.entries(manualPages(version, dayOf(epoch)))
  return Object.fromEntries([
    ...prefixed(
      'man/man1/',
      pages.map(([name, text]) => [`${name}.gz`, gzipSync(text, { level: 9 })]),
    ),
    ...prefixed('doc/sync-bridge/', [
      ...Object.entries(documents(project)),
      ['LICENSES.txt', licenseList(readProduct(), shippedPackages(project))],
    ]),
    ['bash-completion/completions/sync-bridge', completionScript('bash', createProgram().commands)],
    ['zsh/site-functions/_sync-bridge', completionScript('zsh', createProgram().commands)],
    ['fish/vendor_completions.d/sync-bridge.fish', completionScript('fish', createProgram().commands)],
  ])
}

/** The files that `install.sh` installs next to the executable. */
async function makeShareArchive(path: string, epoch: number): Promise<void> {
  const work = mkdtempSync(join(tmpdir(), 'sync-bridge-share-'))
  try {
    for (const [name, bytes] of Object.entries(sharedFiles(epoch))) {
      const target = join(work, 'share', name)
      mkdirSync(dirname(target), { recursive: true })
      writeFileSync(target, bytes)
    }
    await archive(join(work, 'share'), join(work, 'share.tar'), epoch)
    writeFileSync(path, gzipSync(readFileSync(join(work, 'share.tar')), { level: 9 }))
  } finally {
    rmSync(work, { recursive: true })
  }
}

/** Creates the Debian package for this machine's architecture in a folder that may contain other files; resolves to its path. */
async function packageOfThisMachine(folder: string, buildFlags: string[]): Promise<string> {
  const platform = `linux-${process.arch}` as Platform
  const architecture = packaged[platform]!
  // The best compression takes a minute, which only pays off for many downloads.
  const path = await makePackage(folder, architecture, await build({ folder, buildFlags }, platform), 'gzip')
  rmSync(join(folder, platform), { recursive: true })
  return path
}

async function makePackage(
  folder: string,
  architecture: Architecture,
  executable: string,
  compression: 'xz' | 'gzip' | 'none',
): Promise<string> {
  const product = readProduct()
  const epoch = await commitEpoch()
  const path = join(folder, `${product.name}_${product.version}_${architecture}.deb`)
  await makeDebianPackage(path, {
    version: product.version,
    architecture,
    executable,
    unit: unitText(),
    exampleSettings: exampleSettings(),
    licenses: licenseList(product, shippedPackages(project)),
    documents: documents(project),
    changelog: debianChangelog(product.version, epoch),
    manualPages: manualPages(product.version, dayOf(epoch)),
    completions: {
      'bash-completion/completions/sync-bridge': completionScript('bash', createProgram().commands),
      'zsh/vendor-completions/_sync-bridge': completionScript('zsh', createProgram().commands),
      'fish/vendor_completions.d/sync-bridge.fish': completionScript('fish', createProgram().commands),
    },
    epoch,
    compression,
  })
  return path
}

async function compress(file: string, to: string, compression: ReleaseOptions['compression']): Promise<void> {
  if (compression === 'none') return renameSync(file, to)
  // Like gzip -9n: without name and time.
  await pipeline(createReadStream(file), createGzip({ level: 9 }), createWriteStream(`${to}.gz`))
}

async function build(
  { folder, buildFlags }: Pick<ReleaseOptions, 'folder' | 'buildFlags'>,
  platform: Platform,
): Promise<string> {
  // The hash includes the file name, so that is the same on every platform.
  const executable = join(folder, platform, 'sync-bridge')
  say(`Building ${platform}`)
  const target = [`--target=bun-${platform}`, `--outfile=${resolve(executable)}`]
  await run([process.execPath, 'build', ...buildFlags, ...target, 'src/main.ts'], { cwd: project })
  return executable
}

/** A release takes minutes, and what it prints at the end is for programs. */
function say(what: string): void {
  process.stderr.write(`${what} ...\n`)
}

function readProduct(): Product {
  const { name, version, license, description } = JSON.parse(
    readFileSync(join(project, 'package.json'), 'utf8'),
  )
  return { name, version, license, description, bunVersion: Bun.version }
}

function unitText(): string {
  const host = { standalone: true, executablePath: '/usr/bin/sync-bridge', cwd: '/' }
  return systemdUnit(defaultSettingsFile, host as Host)
}

// A secret in this file would be public, so operators must generate one.
function exampleSettings(): string {
  const instead =
    '# service.cache_hmac_secret is missing here: "sync-bridge init" prints this file with a fresh one.'
  return annotatedIni('').replace(/^service\.cache_hmac_secret =.*$/m, instead)
}

// CHANGELOG.md in Debian's format.
function debianChangelog(version: string, epoch: number): string {
  const date = new Date(epoch * 1000).toUTCString().replace('GMT', '+0000')
  const text = '  * Released; CHANGELOG.md in this folder tells what has changed.'
  const maintainer = 'Sync Bridge developers <sync-bridge@localhost.localdomain>'
  return `sync-bridge (${version}) unstable; urgency=medium\n\n${text}\n\n -- ${maintainer}  ${date}\n`
}

function dayOf(epoch: number): string {
  return new Date(epoch * 1000).toISOString().slice(0, 10)
}

async function commitEpoch(): Promise<number> {
  const printed = await run(['git', '-C', project, 'log', '-1', '--format=%ct']).catch(() => '0')
  return Number(process.env.SOURCE_DATE_EPOCH ?? printed.trim())
}

async function commitName(): Promise<string> {
  const printed = await run(['git', '-C', project, 'rev-parse', 'HEAD']).catch(() => 'unknown')
  return printed.trim()
}

/** The SHA-256 of each file, by name. */
function sumsIn(folder: string): Record<string, string> {
  const names = readdirSync(folder).toSorted()
  return Object.fromEntries(names.map((name) => [name, sha256(join(folder, name))]))
}

function sha256(path: string): string {
  return new Bun.CryptoHasher('sha256').update(readFileSync(path)).digest('hex')
}

/** What this machine lacks, one line each. */
function missing(needs: Record<string, string>): string[] {
  const lacks = Object.entries(needs).filter(([need]) => !(Bun.which(need) ?? existsSync(need)))
  return lacks.map(([need, debianPackage]) => `"${need}" is missing: install the package ${debianPackage}\n`)
}

/** The wheel is built in a virtual environment, for which Debian has a separate package. */
async function missingVenv(): Promise<string[]> {
  const line = '"python3 -m venv" is missing: install the package python3-venv\n'
  return run(['python3', '-c', 'import ensurepip']).then(
    () => [],
    () => [line],
  )
}

if (import.meta.main) {
  const [what, folder = 'dist/release', ...buildFlags] = process.argv.slice(2)
  const isRelease = what === 'dist'
  const key = process.env.SIGNING_KEY ?? ''
  const url = process.env.RELEASE_URL ?? 'https://example.org/releases'
  const needs = {
    'dpkg-deb': 'dpkg',
    ...(isRelease && { ...imageNeeds(Object.values(packaged)), rpmbuild: 'rpm' }),
    ...(isRelease && key !== '' && { 'ssh-keygen': 'openssh-client' }),
  }
  const lines = [...missing(needs), ...(isRelease ? await missingVenv() : [])]
  if (lines.length > 0) {
    process.stderr.write(lines.join(''))
    process.exit(1)
  }
  if (isRelease) {
    const work = mkdtempSync(join(tmpdir(), 'sync-bridge-clients-'))
    try {
      await withSigner(key, async (signer) => {
        const clientPackages = await makeClientPackages(work)
        await release({ folder, buildFlags, platforms, compression: 'best', clientPackages, signer, url })
      })
    } catch (error) {
      process.stderr.write(`${(error as Error).message}\n`)
      process.exitCode = 1
    } finally {
      rmSync(work, { recursive: true })
    }
    if (process.exitCode === 1) process.exit()
    process.stdout.write(readFileSync(join(folder, 'SHA256SUMS'), 'utf8'))
    if (key === '')
      process.stderr.write(
        'This release is unsigned: "make dist SIGNING_KEY=FILE" signs it with a key of SSH\n',
      )
  } else {
    process.stdout.write(`${await packageOfThisMachine(folder, buildFlags)}\n`)
  }
}
