import { afterAll, describe, expect, it } from 'bun:test'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'

import { withSigner } from '../../.ci/signature.ts'
import { hasNoNamespaces } from '../support/machine.ts'
import { runProgram, runToEnd, temporaryFolder, words } from '../support/processes.ts'
import { shownAfter } from '../support/shown-after.ts'

const script = join(import.meta.dir, '../../install.sh')
const folder = temporaryFolder()
afterAll(() => folder[Symbol.dispose]())

const platform = `linux-${process.arch}`
const key = folder.file('key')
await runProgram(['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-C', '', '-f', key])

/** Creates a release whose executable is this script, signed with the key, or unsigned. */
async function makeRelease(name: string, given: { key?: string; version?: string; code?: string } = {}) {
  const { version = '1.2.3', code = `echo sync-bridge ${version}` } = given
  const path = folder.file(name)
  mkdirSync(join(path, 'share/man/man1'), { recursive: true })
  writeFileSync(join(path, `share/man/man1/of-${version}.1.gz`), '')
  await runProgram([
    'tar',
    '-czf',
    join(path, `sync-bridge-${version}-share.tar.gz`),
    '-C',
    join(path, 'share'),
    '.',
  ])
  rmSync(join(path, 'share'), { recursive: true })
  writeFileSync(join(path, `sync-bridge-${version}-${platform}.gz`), gzipSync(`#!/bin/sh\n${code}\n`))
  cpSync(script, join(path, 'install.sh'))
  await withSigner(given.key ?? '', async (signer) => {
    if (signer) writeFileSync(join(path, 'allowed_signers'), signer.allowedSigners)
    const sums = readdirSync(path).map((file) => {
      const sum = new Bun.CryptoHasher('sha256').update(readFileSync(join(path, file))).digest('hex')
      return `${sum}  ${file}\n`
    })
    writeFileSync(join(path, 'SHA256SUMS'), sums.join(''))
    await signer?.sign(join(path, 'SHA256SUMS'))
  })
  return path
}

const signed = await makeRelease('signed', { key })
const unsigned = await makeRelease('unsigned')

/** A home directory without an installation. */
function makeHome(): string {
  const home = folder.file(`home-${crypto.randomUUID()}`)
  mkdirSync(home)
  return home
}

function install(home: string, args: string[], file = script, path = '/usr/bin:/bin') {
  return runToEnd(['/bin/sh', file, ...args], { environment: { HOME: home, PATH: path } })
}

const filesIn = (home: string) => readdirSync(home, { recursive: true }).map(String).toSorted()

// A shell, because users run the script in one; a server, because it downloads from an address.
describe('install.sh', () => {
  it('installs a signed release for one user from its own folder, and leaves nothing behind', async () => {
    const home = makeHome()

    const installed = await install(home, [], join(signed, 'install.sh'))
    const version = await runProgram([join(home, '.local/bin/sync-bridge')])
    const files = filesIn(home)
    const removed = await install(home, ['--uninstall'])

    expect(installed).toMatchObject({ code: 0, errors: '' })
    expect(installed.output).toContain(`Installed sync-bridge 1.2.3 in ${home}/.local\n`)
    expect(installed.output).toContain(`Add ${home}/.local/bin to your PATH`)
    expect(version).toBe('sync-bridge 1.2.3\n')
    expect(files).toContain('.local/share/man/man1/of-1.2.3.1.gz')
    expect(removed).toMatchObject({ code: 0, errors: '' })
    expect(filesIn(home)).toEqual([])
  })

  it('leaves files of others in the same folders alone', async () => {
    const home = makeHome()
    mkdirSync(join(home, '.local/bin'), { recursive: true })
    writeFileSync(join(home, '.local/bin/mine'), '')

    await install(home, ['--from', signed])
    await install(home, ['--uninstall'])

    expect(filesIn(home)).toEqual(['.local', '.local/bin', '.local/bin/mine'])
  })

  it.each(['file', 'http'])('installs from an address: %s', async (scheme) => {
    const home = makeHome()
    await using server = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      fetch: (request) => new Response(Bun.file(join(signed, new URL(request.url).pathname))),
    })

    const from = scheme === 'file' ? `file://${signed}` : server.url.href
    const { code, errors } = await install(home, ['--from', from])

    expect({ code, errors }).toEqual({ code: 0, errors: '' })
    expect(existsSync(join(home, '.local/bin/sync-bridge'))).toBe(true)
  })

  it.skipIf(hasNoNamespaces)('installs for all users, as root', async () => {
    const namespaces = words`unshare --map-root-user --mount sh -c`
    const commands = `mount -t tmpfs none /usr/local && sh "${script}" --all --from ${signed} &&
      /usr/local/bin/sync-bridge && sh "${script}" --all --uninstall && ls -A /usr/local`

    expect(await runProgram([...namespaces, commands])).toMatch(
      /^Installed sync-bridge 1\.2\.3 in \/usr\/local\n(Add .*\n)?sync-bridge 1\.2\.3\nRemoved sync-bridge from \/usr\/local\n$/,
    )
  })

  it('replaces an earlier version completely, if it was signed by the same signers', async () => {
    const home = makeHome()
    const other = folder.file('other')
    await runProgram(['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-C', '', '-f', other])
    const next = await makeRelease('next', { key, version: '1.3.0' })
    const forged = await makeRelease('forged', { key: other, version: '1.4.0' })

    await install(home, ['--from', signed])
    const { code } = await install(home, ['--from', next])
    const refused = await install(home, ['--from', forged])

    expect(code).toBe(0)
    expect(await runProgram([join(home, '.local/bin/sync-bridge')])).toBe('sync-bridge 1.3.0\n')
    expect(filesIn(home).filter((file) => file.endsWith('.1.gz'))).toEqual([
      '.local/share/man/man1/of-1.3.0.1.gz',
    ])
    expect(refused.errors).toBe(
      `The signature of the release in "${forged}" is not by its signers: do not install it\n`,
    )
    await install(home, ['--uninstall'])
    expect(filesIn(home)).toEqual([])
  })

  it('installs an unsigned release only with --unsigned', async () => {
    const home = makeHome()

    const refused = await install(home, ['--from', unsigned])
    const taken = await install(home, ['--from', unsigned, '--unsigned'])

    expect(refused.code).toBe(1)
    expect(refused.errors).toBe(
      `The release in "${unsigned}" is unsigned: pass --unsigned if you trust where it is from\n`,
    )
    expect(taken).toMatchObject({ code: 0, errors: '' })
  })

  it('rejects invalid input with one sentence, and installs nothing', async () => {
    const damaged = await makeRelease('damaged', { key })
    writeFileSync(join(damaged, `sync-bridge-1.2.3-${platform}.gz`), gzipSync('echo evil'))
    const changed = await makeRelease('changed', { key })
    writeFileSync(join(changed, 'SHA256SUMS'), `${readFileSync(join(changed, 'SHA256SUMS'), 'utf8')}\n`)
    const broken = await makeRelease('broken', { key, code: 'echo no such instruction >&2; exit 1' })
    const lacking = await makeRelease('lacking', { key })
    rmSync(join(lacking, 'sync-bridge-1.2.3-share.tar.gz'))
    const cases: [args: string[], sentence: string | RegExp][] = [
      [['--from', damaged], /^"\S+\.gz" is damaged: its checksum is not the one in SHA256SUMS\n$/],
      [
        ['--from', changed],
        /^The signature of the release in "\S+" is not by its signers: do not install it\n$/,
      ],
      [['--from', broken], `The executable for ${platform} does not start here: no such instruction\n`],
      [['--from', lacking], /^Cannot read "\S+share.tar.gz": is this the folder of a release\?\n$/],
      [['--from', '/nowhere'], 'Cannot read "/nowhere/SHA256SUMS": is this the folder of a release?\n'],
      [['--from', 'http://127.0.0.1:1'], /^Cannot get "http:\/\/127\.0\.0\.1:1\/SHA256SUMS": .+\n$/],
      [[], 'Say where the release is: --from FOLDER or --from ADDRESS\n'],
      [['--from'], '--from needs a value: see sh install.sh --help\n'],
      [['--now'], 'Unknown argument "--now": see sh install.sh --help\n'],
      [['--from', signed, '--signers', '/nobody'], 'Cannot read the signers: there is no file "/nobody"\n'],
      [['--uninstall'], /^Nothing is installed in "\S+\/\.local"\n$/],
    ]

    for (const [args, sentence] of cases) {
      const home = makeHome()
      const { code, errors } = await install(home, args)

      expect({ args, code }).toEqual({ args, code: 1 })
      if (typeof sentence === 'string') expect(errors).toBe(sentence)
      else expect(errors).toMatch(sentence)
      expect(filesIn(home)).toEqual([])
    }
  })

  it('rejects a system, a processor or a user that it does not support', async () => {
    const programs = folder.file('programs')
    mkdirSync(programs)
    const pretend = (program: string, code: string) => {
      writeFileSync(join(programs, program), `#!/bin/sh\n${code}\n`)
      chmodSync(join(programs, program), 0o755)
    }
    const attempt = async (...args: string[]) => {
      const home = makeHome()
      return (await install(home, ['--from', signed, ...args], script, `${programs}:/usr/bin:/bin`)).errors
    }

    pretend('uname', '[ "$1" = -m ] && echo riscv64 || echo Linux')
    expect(await attempt()).toBe('There is no executable for this processor, riscv64\n')
    pretend('uname', '[ "$1" = -m ] && echo x86_64 || echo Plan9')
    expect(await attempt()).toBe('There is no executable for this system, Plan9\n')
    pretend('uname', '[ "$1" = -m ] && echo arm64 || echo Darwin')
    expect(await attempt()).toBe(`The release in "${signed}" has no executable for darwin-arm64\n`)
    pretend('id', 'echo 1000')
    expect(await attempt('--all')).toBe(
      'Cannot install for all users: only root can, so run this with sudo, or leave out --all\n',
    )
  })

  it.skipIf(!Bun.which('shellcheck'))('has no findings of the shell checker', async () => {
    expect(await runProgram(words`shellcheck ${script}`)).toBe('')
  })
})

describe('a signature', () => {
  it('is verified only with the commands of the guide', async () => {
    const guide = readFileSync(join(import.meta.dir, '../../docs/run.md'), 'utf8')
    const [, commands] = /^```sh\n(ssh-keygen [^]*?)^```$/m.exec(guide)!

    const said = await runProgram(['bash', '-e', '-c', commands!], { cwd: signed })

    expect(said).toMatch(shownAfter('docs/run.md', commands!))
    expect(said).toContain('install.sh: OK\n')
  })

  it('is the same from the text of a key as from its file, and deterministic', async () => {
    const again = await makeRelease('again', { key: readFileSync(key, 'utf8') })

    const signature = (path: string) => {
      writeFileSync(join(path, 'text'), 'the same')
      return withSigner(key, async (signer) => {
        await signer!.sign(join(path, 'text'))
        return readFileSync(join(path, 'text.sig'), 'utf8')
      })
    }

    expect(await signature(again)).toBe(await signature(signed))
    expect(readFileSync(join(again, 'allowed_signers'), 'utf8')).toBe(
      readFileSync(join(signed, 'allowed_signers'), 'utf8'),
    )
  })

  it('is rejected before anything is done if the key is invalid', async () => {
    const never = () => Promise.reject(new Error('it was used'))

    await expect(withSigner('/no/key', never)).rejects.toThrow('Cannot sign: there is no key "/no/key"')
    await expect(withSigner(script, never)).rejects.toThrow('ssh-keygen')
  })
})
