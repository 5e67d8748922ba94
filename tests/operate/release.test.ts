import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import {
  appendFileSync,
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'

import { Glob } from 'bun'

import { packageRecipes } from '../../.ci/package-recipes.ts'
import { release } from '../../.ci/release.ts'
import { createProgram } from '../../src/cli/run.ts'
import { environmentLines } from '../../src/cli/service/runtime-environment.ts'
import { eventually } from '../support/eventually.ts'
import { dropRoot } from '../support/executable.ts'
import { freePort } from '../support/free-port.ts'
import { hasNoNamespaces } from '../support/machine.ts'
import { runProgram, runToEnd, startProgram, temporaryFolder, words } from '../support/processes.ts'

const docs = join(import.meta.dir, '../../docs')
// Written for contributors.
const isOurs = /^(architecture|decisions|sources)\.md$|__pycache__/
const product = JSON.parse(readFileSync(join(docs, '../package.json'), 'utf8')) as {
  version: string
  dependencies: Record<string, string>
  devDependencies: Record<string, string>
}
const buildFlags = words`--compile --bytecode --format=esm --define process.env.NODE_ENV="production"`
const packageFile = `sync-bridge_${product.version}_amd64.deb`
const imageFile = `sync-bridge-${product.version}-oci-amd64.tar`
const rpmFile = `sync-bridge-${product.version}-1.x86_64.rpm`
const executableFile = `sync-bridge-${product.version}-linux-x64`
const shareFile = `sync-bridge-${product.version}-share.tar.gz`

const isRoot = process.getuid?.() === 0

const folder = temporaryFolder()
const releaseFolder = folder.file('one')
const packagePath = join(releaseFolder, packageFile)

beforeAll(() => make(releaseFolder), 300_000)

afterAll(() => folder[Symbol.dispose]())

// Without compression, which would take a minute and is not our code.
function make(path: string, platform: 'linux-x64' | 'linux-arm64' = 'linux-x64'): Promise<void> {
  return release({
    folder: path,
    buildFlags,
    platforms: [platform],
    compression: 'none',
    clientPackages: [],
    signer: null,
    url: 'https://example.org/releases',
  })
}

// The tools of each format, because they decide whether a package is valid and can be installed.
describe('a release', () => {
  it('consists of executables, a package, lists of their contents, and checksums', async () => {
    const lists = ['LICENSES.txt', 'SHA256SUMS', 'sbom.cdx.json', 'PKGBUILD', 'sync-bridge.rb']
    const files = [...lists, 'install.sh', shareFile, executableFile, packageFile, rpmFile, imageFile]
    expect(readdirSync(releaseFolder).toSorted()).toEqual(files.toSorted())
    // The tools of the packages verify what is large; a file that is missing or differs is an error.
    const small = [...lists, 'install.sh', shareFile].filter((name) => name !== 'SHA256SUMS').join('|')
    await runProgram(['sh', '-c', `grep -E '  (${small})$' SHA256SUMS | sha256sum -c`], {
      cwd: releaseFolder,
    })
    const sumsFile = readFileSync(join(releaseFolder, 'SHA256SUMS'), 'utf8')
    const listed = Array.from(sumsFile.matchAll(/(?<= {2}).*$/gm), ([name]) => name)
    expect(listed).toEqual(files.filter((name) => name !== 'SHA256SUMS').toSorted())
    expect(await runProgram([join(releaseFolder, executableFile), '--version'])).toContain(product.version)
  })

  it('is reproducible bit for bit in another place', async () => {
    const elsewhere = folder.file('another, longer folder')
    await make(elsewhere)

    const sums = readFileSync(join(releaseFolder, 'SHA256SUMS'), 'utf8')
    expect(sums.split('\n').length).toBeGreaterThan(8)
    expect(readFileSync(join(elsewhere, 'SHA256SUMS'), 'utf8')).toBe(sums)
  }, 300_000)

  it('lists every package that it contains, and no others', () => {
    const { components } = JSON.parse(readFileSync(join(releaseFolder, 'sbom.cdx.json'), 'utf8')) as {
      components: { name: string; version: string; hashes?: { content: string }[]; purl: string }[]
    }
    const licenses = readFileSync(join(releaseFolder, 'LICENSES.txt'), 'utf8')
    const versions = Object.fromEntries(components.map(({ name, version }) => [name, version]))

    expect(versions).toMatchObject({
      ...product.dependencies,
      bun: Bun.version,
      '@redis/client': expect.any(String),
    })
    for (const name of Object.keys(product.devDependencies)) expect(versions).not.toHaveProperty(name)
    for (const { name, version, hashes, purl } of components) {
      expect(purl).toMatch(/^pkg:npm\/(%40[\w-]+\/)?[\w.-]+@\d[\w.-]*$/)
      if (name === 'bun') continue
      expect(hashes?.[0]?.content).toMatch(/^[0-9a-f]{128}$/)
      expect(licenses).toContain(`${name} ${version} (`)
    }
    expect(licenses).toContain('Permission is hereby granted, free of charge')
  })
})

describe('the recipes for package managers', () => {
  it.skipIf(!Bun.which('makepkg'))('have a PKGBUILD from which makepkg makes a package', async () => {
    using place = temporaryFolder()
    // makepkg verifies the sums of files that are there, and refuses to run as root.
    for (const name of [shareFile, executableFile, 'PKGBUILD'])
      copyFileSync(join(releaseFolder, name), place.file(name))
    if (isRoot) await runProgram(['chown', '-R', '65534:65534', place.path])

    const environment = { HOME: place.path, PKGEXT: '.pkg.tar' }
    const printed = await runProgram(['env', ...dropRoot, 'makepkg', '--nodeps'], {
      cwd: place.path,
      environment,
    })

    const installed = place.file('pkg/sync-bridge-bin/usr')
    expect(printed.match(/\S+ \.\.\. Passed/g)).toHaveLength(2)
    expect(existsSync(place.file(`sync-bridge-bin-${product.version}-1-x86_64.pkg.tar`))).toBe(true)
    expect(await runProgram([join(installed, 'bin/sync-bridge'), '--version'])).toContain(product.version)
    expect(existsSync(join(installed, 'share/man/man1/sync-bridge.1.gz'))).toBe(true)
  })

  it.skipIf(!Bun.which('ruby'))('have a Homebrew formula that Ruby reads, with the right sums', async () => {
    const formula = join(releaseFolder, 'sync-bridge.rb')
    const text = readFileSync(formula, 'utf8')
    const url = 'https://example.org/releases'
    const platforms = ['darwin-arm64', 'darwin-x64', 'linux-arm64', 'linux-x64']
    const allSums = Object.fromEntries(
      platforms.map((name) => [`sync-bridge-1.0.0-${name}.gz`, 'f'.repeat(64)]),
    )
    const ofAll = packageRecipes({ name: 'sync-bridge', version: '1.0.0', license: '', url, sums: allSums })
    const sums = readFileSync(join(releaseFolder, 'SHA256SUMS'), 'utf8')

    const checked = await runProgram(['ruby', '-c', formula])

    const named = [...text.matchAll(/url ".*\/([^/"]+)"\n +sha256 "(\w+)"/g)]
    expect(checked).toBe('Syntax OK\n')
    expect(named.map(([, file]) => file)).toEqual([executableFile, shareFile])
    for (const [, file, sum] of named) expect(sums).toContain(`${sum}  ${file}\n`)
    // "brew style" rejects a second block.
    expect(ofAll['sync-bridge.rb']!.match(/^ +on_\w+ do$/gm)?.map((line) => line.trim())).toEqual(
      ['macos', 'linux'].flatMap((system) => [`on_${system} do`, 'on_arm do', 'on_intel do']),
    )
  })
})

describe('the RPM package', () => {
  const rpm = join(releaseFolder, rpmFile)

  it('describes itself, and contains what the Debian package contains', async () => {
    const about = await runProgram(words`rpm -qp --qf %{NAME}|%{VERSION}|%{ARCH}|%{BUILDHOST} ${rpm}`)
    const listed = (await runProgram(words`rpm -qpl ${rpm}`)).split('\n')
    const debian = await runProgram(words`dpkg-deb --contents ${packagePath}`)
    const ownToDebian = /\/(lintian|copyright|changelog\.gz|vendor-completions)/
    const files = Array.from(debian.matchAll(/^-.* \.(\/\S+)$/gm), ([, path]) => path!)
    const wanted = files
      .filter((path) => !ownToDebian.test(path))
      .map((path) => path.replace(/^\/lib\//, '/usr/lib/'))

    expect(about).toBe(`sync-bridge|${product.version}|x86_64|localhost`)
    expect(wanted.length).toBeGreaterThan(30)
    expect(wanted.filter((path) => !listed.includes(path))).toEqual([])
  })

  it.skipIf(hasNoNamespaces)('is installed, runs, and leaves nothing behind', async () => {
    const root = folder.file('rpm-root')
    mkdirSync(root)
    const inRoot = words`rpm --root=${root} --nodeps --noscripts`
    await runProgram([...inRoot, '--install', rpm])

    const printed = await runProgram([join(root, 'usr/bin/sync-bridge'), '--version'])
    const verified = await runProgram([...inRoot, '--verify', 'sync-bridge'])
    await runProgram([...inRoot, '--erase', 'sync-bridge'])

    expect(printed).toContain(product.version)
    expect(verified).toBe('')
    const left = [...new Glob('**/*sync-bridge*').scanSync({ cwd: root, onlyFiles: false })]
    expect(left).toEqual([])
  })
})

describe('the command that makes a release', () => {
  it('lists all missing requirements before it begins, one per line', async () => {
    const command = [process.execPath, join(docs, '../.ci/release.ts'), 'dist', folder.file('never made')]

    const { code, errors } = await runToEnd(command, { environment: { PATH: '' } })

    expect(code).toBe(1)
    // Those of the image may or may not exist.
    expect(errors).toStartWith(
      '"dpkg-deb" is missing: install the package dpkg\n"tar" is missing: install the package tar\n',
    )
    expect(errors).toMatch(/^("[^"]+" is missing: install the package \S+\n)+$/)
    expect(existsSync(folder.file('never made'))).toBe(false)
  })
})

interface ImageConfig {
  architecture: string
  config: {
    User: string
    Env: string[]
    Entrypoint: string[]
    Cmd: string[]
    Healthcheck: { Test: string[] }
    Labels: Record<string, string>
  }
  rootfs: { diff_ids: string[] }
}

/** The contents of an image, and the folder of its blobs, extracted next to it. */
async function unpack(archive: string) {
  const [layout, root] = [`${archive}.layout`, `${archive}.root`]
  const blob = (digest: string) => join(layout, 'blobs/sha256', digest.replace('sha256:', ''))
  const readJson = (path: string) => JSON.parse(readFileSync(path, 'utf8'))
  for (const path of [layout, root]) mkdirSync(path)
  await runProgram(['tar', '-xf', archive, '-C', layout])
  const [{ digest, annotations }] = readJson(join(layout, 'index.json')).manifests
  const { layers, config } = readJson(blob(digest))
  for (const layer of layers) await runProgram(['tar', '-xf', blob(layer.digest), '-C', root])
  const name: string = annotations['io.containerd.image.name']
  return { layout, root, blob, name, config: readJson(blob(config.digest)) as ImageConfig }
}

describe('the container image', () => {
  let image: Awaited<ReturnType<typeof unpack>>

  beforeAll(async () => {
    image = await unpack(join(releaseFolder, imageFile))
  })

  it('is addressed by correct digests', async () => {
    for (const digest of readdirSync(join(image.layout, 'blobs/sha256'))) {
      const [sum] = (await runProgram(['sha256sum', image.blob(digest)])).split(' ')
      expect(sum).toBe(digest)
    }
    expect(image.config.rootfs.diff_ids).toHaveLength(2)
    expect(image.name).toBe(`localhost/sync-bridge:${product.version}`)
    expect(image.config.config.Labels['org.opencontainers.image.version']).toBe(product.version)
  })

  it('runs as an unprivileged user, with the files that the runtime needs, and a health check', () => {
    const { User, Env, Entrypoint, Healthcheck } = image.config.config
    expect(User).toBe('65532:65532')
    expect(Env).toEqual(expect.arrayContaining(environmentLines))
    expect(Entrypoint).toEqual(['/usr/bin/sync-bridge'])
    expect(Healthcheck.Test.slice(0, 3)).toEqual(['CMD', '/usr/bin/sync-bridge', 'healthcheck'])
  })

  it.skipIf(hasNoNamespaces)('contains everything that the executable needs', async () => {
    const { root, config } = image
    const port = freePort()
    const namespaces = words`unshare --map-root-user --mount --pid --fork --kill-child`
    const inside = (...command: string[]): [string, ...string[]] => [
      ...namespaces,
      ...words`--mount-proc=${root}/proc chroot ${root}`,
      ...command,
    ]
    const environment = {
      SERVICE_PORT: String(port),
      SERVICE_TOKEN_SERVER_URL: 'https://token.example.org',
      SERVICE_CACHE_BACKEND: 'memory',
      SERVICE_CACHE_HMAC_SECRET: 'ab'.repeat(32),
    }
    const [program, ...healthcheck] = config.config.Healthcheck.Test.slice(1)
    const url = `http://127.0.0.1:${port}`

    await using service = await startProgram(
      inside(...config.config.Entrypoint, ...config.config.Cmd),
      async () => (await fetch(`${url}/__lbheartbeat__`)).ok,
      environment,
    )
    const asked = healthcheck.map((word) => word.replace('http://127.0.0.1:8000', url))

    expect(await runProgram(inside(program!, ...asked))).toBe('')
    await eventually('it has reported it', () => service.output().includes('"listening"'))
  })
})

const hasArmEmulator = Bun.which('qemu-aarch64-static') !== null && existsSync('/usr/aarch64-linux-gnu/lib')

describe.skipIf(!hasArmEmulator)('a release for arm64', () => {
  const own = folder.file('arm64')

  beforeAll(() => make(own, 'linux-arm64'), 300_000)

  it('has an image whose executable starts on that processor', async () => {
    const { root, config } = await unpack(join(own, imageFile.replace('amd64', 'arm64')))

    const printed = await runProgram(
      words`qemu-aarch64-static -L ${root} ${root}/usr/bin/sync-bridge --version`,
    )

    expect(config.architecture).toBe('arm64')
    expect(printed).toContain(product.version)
  })

  it('has a Debian package', async () => {
    const deb = join(own, packageFile.replace('amd64', 'arm64'))
    const fields = await runProgram(words`dpkg-deb --field ${deb}`)

    expect(fields).toContain(`Package: sync-bridge\nVersion: ${product.version}\nArchitecture: arm64\n`)
  })
})

describe('the Debian package', () => {
  const root = folder.file('root')
  const extracted = folder.file('extracted')

  function dpkg(...action: string[]): Promise<string> {
    const options = words`--force-not-root,depends,script-chrootless --log=${folder.file('dpkg.log')}`
    return runProgram(['dpkg', `--root=${root}`, ...options, ...action])
  }

  beforeAll(async () => {
    await runProgram(words`dpkg-deb --extract ${packagePath} ${extracted}`)
    mkdirSync(join(root, 'var/lib/dpkg/info'), { recursive: true })
    mkdirSync(join(root, 'var/lib/dpkg/updates'), { recursive: true })
    writeFileSync(join(root, 'var/lib/dpkg/status'), '')
    chmodSync(root, 0o755)
  })

  it.skipIf(!Bun.which('lintian'))(
    "has no errors according to Debian's checker",
    async () => {
      // The checker takes half a minute to read our executable; any other has the same path and mode.
      const tree = folder.file('checked')
      await runProgram(words`dpkg-deb --raw-extract ${packagePath} ${tree}`)
      copyFileSync('/bin/true', join(tree, 'usr/bin/sync-bridge'))
      await runProgram(words`dpkg-deb --root-owner-group --build ${tree}`)

      const said = await runProgram(words`lintian --allow-root --suppress-tags=md5sum-mismatch ${tree}.deb`)

      expect(said).toBe('')
    },
    600_000,
  )

  it('contains a manual page for every command, completions, a changelog and what creates the user', async () => {
    const listed = await runProgram(words`dpkg-deb --contents ${packagePath}`)

    const files = words`
      share/man/man1/sync-bridge.1.gz share/bash-completion/completions/sync-bridge
      share/zsh/vendor-completions/_sync-bridge
      share/fish/vendor_completions.d/sync-bridge.fish
      share/doc/sync-bridge/changelog.gz share/doc/sync-bridge/copyright share/doc/sync-bridge/LICENSES.txt
      lib/sysusers.d/sync-bridge.conf lib/sysctl.d/60-sync-bridge.conf`
    const pages = createProgram().commands.map(
      (command) => `share/man/man1/sync-bridge-${command.name()}.1.gz`,
    )
    expect([...files, ...pages].filter((file) => !listed.includes(` ./usr/${file}\n`))).toEqual([])
  })

  it('contains all guides and examples, with working links', async () => {
    const documents = join(extracted, 'usr/share/doc/sync-bridge')
    const names = [...new Glob('**/*').scanSync(documents)]
    const links = names
      .filter((name) => name.endsWith('.md'))
      .flatMap((name) => {
        const found = readFileSync(join(documents, name), 'utf8').matchAll(/\]\(([^)#:]+)(#[^)]*)?\)/g)
        return Array.from(found, ([, target]) => join(dirname(name), target!))
      })
    const sources = [...new Glob('**/*').scanSync(docs)].filter((name) => !isOurs.test(name))

    expect(sources.length).toBeGreaterThan(20)
    expect(['README.md', ...sources].filter((name) => !names.includes(name))).toEqual([])
    expect(links.length).toBeGreaterThan(20)
    expect(links.filter((link) => !existsSync(join(documents, link)))).toEqual([])
  })

  it('belongs to root and describes itself', async () => {
    const listed = await runProgram(words`dpkg-deb --contents ${packagePath}`)
    const fields = await runProgram(words`dpkg-deb --field ${packagePath}`)

    for (const line of listed.trim().split('\n'))
      expect(line).toMatch(/^(drwx|-rw-|-rwx)r-[x-]r-[x-] root\/root /)
    expect(fields).toContain(`Package: sync-bridge\nVersion: ${product.version}\nArchitecture: amd64\n`)
    expect(fields).toMatch(/^Installed-Size: [1-9]\d*$/m)
  })

  it('is installed, runs, is replaced and removed', async () => {
    await dpkg('--install', packagePath)
    await dpkg('--install', packagePath)

    const executable = join(root, 'usr/bin/sync-bridge')
    expect(await runProgram([executable, '--version'])).toContain(product.version)
    const unit = readFileSync(join(root, 'lib/systemd/system/sync-bridge.service'), 'utf8')
    const command = '/usr/bin/sync-bridge serve --config /etc/sync-bridge/sync-bridge.ini'
    expect(unit).toContain(`\nExecStart=${command}\n`)
    expect(await runProgram(words`dpkg --root=${root} --verify sync-bridge`)).toBe('')
    appendFileSync(join(root, 'lib/systemd/system/sync-bridge.service'), '# mine\n')
    const changed = await runProgram(words`dpkg --root=${root} --verify sync-bridge`)
    expect(changed).toContain('??5?????? ')

    await dpkg('--remove', 'sync-bridge')
    expect(existsSync(executable)).toBe(false)
    expect(existsSync(join(root, 'usr/share/doc/sync-bridge'))).toBe(false)
  })

  it('contains settings that lack only the token server', async () => {
    const example = join(extracted, 'usr/share/sync-bridge/sync-bridge.ini')

    const told = await runProgram(words`${extracted}/usr/bin/sync-bridge check --config ${example}`).catch(
      String,
    )

    expect(told).toContain('2 problems with the settings')
    expect(told).toContain('service.token_server_url: is required')
    expect(told).toContain('service.cache_hmac_secret: is required')
  })
})
