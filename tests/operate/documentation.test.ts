import { describe, expect, it } from 'bun:test'
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

import { Glob, YAML } from 'bun'
import { connectPage } from '../../.ci/connect-page.ts'
import { readRedisAddress } from '../../src/credentials/redis-address.ts'
import { RedisStore } from '../../src/credentials/redis-store.ts'
import { callLimits, limits, type Limits } from '../../src/load/limits.ts'
import { retries } from '../../src/domain/retries.ts'
import { startSandbox } from '../support/sandbox.ts'
import { collectionGate, settingsSchema } from '../../src/settings/schema.ts'
import { freePort } from '../support/free-port.ts'
import {
  runProgram,
  startProgram,
  temporaryFolder,
  words,
  type TemporaryFolder,
} from '../support/processes.ts'
import { eventually } from '../support/eventually.ts'
import { sendCommand } from '../support/redis-server.ts'
import { executablePath, iniText } from '../support/executable.ts'
import { shownAfter } from '../support/shown-after.ts'

/** `make test` builds the executable; `make test-fast` does not need it. */
const isNotBuilt = !existsSync(executablePath)

const docs = join(import.meta.dir, '../../docs')
/** The two pages for operators. */
const text = ['run.md', 'scale.md'].map((name) => readFileSync(join(docs, name), 'utf8')).join('\n')
/** Their code blocks, without those that show a result. */
const blocks = [...text.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)].flatMap(([, kind, block]) =>
  kind === 'text' ? [] : [block!],
)

/** The code block with that text, which must exist once. */
function blockWith(part: string): string {
  const found = blocks.filter((block) => block.includes(part))
  if (found.length !== 1) throw new Error(`${found.length} code blocks contain "${part}"`)
  return found[0]!
}

// A shell, because operators type these commands into one.
describe('the pages for operators', () => {
  /** Types lines in a folder that stands for the machine, after these functions, over a token server of the tests. */
  async function typeInto(folder: TemporaryFolder, lines: string, functions: string): Promise<string> {
    await using sandbox = await startSandbox()
    const script = lines
      .replaceAll(/(?<![\w.])\/(etc|usr)\/(?!share\/doc)/g, `${folder.path}/$1/`)
      .replace('https://token.services.mozilla.com', sandbox.tokenServerUrl)
    writeFileSync(folder.file('install.sh'), `exec 2>&1\nset -eu -o pipefail\n${functions}\n${script}`)
    const environment = { SERVICE_PORT: '0' }
    const printed = await runProgram(['bash', folder.file('install.sh')], { environment })
    return printed.replaceAll(folder.path, '')
  }

  // real-systemd.sh runs it completely. Here it runs in a folder, without a package and a service manager.
  it.skipIf(isNotBuilt)('have ten commands from a fresh Debian to a bridge with TLS', async () => {
    using folder = temporaryFolder()
    const commands = blockWith('HOST=')
    for (const made of ['etc/sync-bridge', 'etc/caddy']) mkdirSync(folder.file(made), { recursive: true })

    const printed = await typeInto(
      folder,
      commands.replace('/usr/share/doc/sync-bridge/', `"${docs}"/`),
      `apt-get() { [ "$1" = update ] || "${executablePath}" init >${folder.path}/etc/sync-bridge/sync-bridge.ini; }
      systemctl() { :; }; curl() { :; }; sync-bridge() { "${executablePath}" "$@"; }`,
    )
    const caddyfile = folder.file('etc/caddy/Caddyfile')
    const validated = await runProgram(words`caddy validate --adapter caddyfile --config ${caddyfile}`)

    const typed = commands.replaceAll(/^(\(|set -ex|service.*|END|\))\n/gm, '').trim()
    expect(typed.split('\n')).toHaveLength(10)
    // What curl prints, the last line that the page shows, is compared by one-machine-inside.sh.
    expect(`${printed}HTTP/2 200\n`).toMatch(shownAfter('docs/run.md', commands))
    expect(printed).toContain('token server: OK')
    expect(validated).toContain('Valid configuration')
  })

  it('stop at the first of the ten commands that fails, which is the last one printed', async () => {
    using folder = temporaryFolder()
    // The guide's own shell options must stop it, not those of the test.
    const failing = 'set +eu; apt-get() { return 1; }; systemctl() { echo went on; }'

    const printed = await typeInto(folder, blockWith('HOST='), failing).catch(String)

    expect(printed).not.toContain('went on')
    expect(
      printed
        .trim()
        .split('\n')
        .findLast((line) => line.startsWith('+ apt-get')),
    ).toBe('+ apt-get update')
  })

  it.skipIf(isNotBuilt)('install in five lines without the package', async () => {
    using folder = temporaryFolder()
    const block = blockWith('zcat')
    const lines = block.trim()
    const installed = folder.file('usr/local/bin/sync-bridge')
    mkdirSync(folder.file('etc/systemd/system'), { recursive: true })

    const printed = await typeInto(
      folder,
      `${lines.replace(/^zcat \S+/, `cat "${executablePath}"`)}
      export SERVICE_CACHE_BACKEND=memory CREDENTIALS_DIRECTORY=/etc/sync-bridge
      sync-bridge check --config /etc/sync-bridge/sync-bridge.ini`,
      `sudo() { [ "$1" = systemctl ] && echo "$@" || "$@"; }; sync-bridge() { ${installed} "$@"; }`,
    )
    const unit = readFileSync(folder.file('etc/systemd/system/sync-bridge.service'), 'utf8')

    expect(lines.split('\n')).toHaveLength(5)
    expect(printed).toMatch(shownAfter('docs/run.md', block))
    expect(printed).toContain('systemctl enable --now sync-bridge')
    expect(unit).toContain(`ExecStart=${installed} serve`)
    expect(statSync(folder.file('etc/sync-bridge/cache_hmac_secret')).mode & 0o777).toBe(0o600)
    expect(printed).toContain('token server: OK')
  })

  it.each([
    ['', ''],
    ['/2', ' +select'],
  ])('configure Redis, with a restricted user: database "%s"', async (database, more) => {
    using folder = temporaryFolder()
    const port = freePort()
    const file = folder.file('redis.conf')
    writeFileSync(file, `${blockWith('maxmemory-policy')}\nport ${port}\nbind 127.0.0.1\n`)
    const command = (line: string) => {
      const [name = '', ...args] = line.split(' ')
      return sendCommand(`redis://127.0.0.1:${port}`, name, ...args)
    }
    await using server = await startProgram(
      ['redis-server', file, '--dir', folder.path],
      async () => (await command('PING')) === 'PONG',
    )
    await command(blockWith('ACL SETUSER').trim().replace('PASSWORD', 'hunter2') + more)

    const codes: (string | null)[] = []
    const store = new RedisStore({
      address: readRedisAddress(`redis://bridge:hunter2@127.0.0.1:${port}${database}`)!,
      prefix: settingsSchema.cache_prefix.initial,
      commandTimeoutMs: 10_000,
      onTrouble: (_, code) => void codes.push(code),
    })
    await eventually('the store is connected', () => store.ping())
    await store.set('a', 'sealed', 60_000)
    const found = await store.get('a')
    await store.delete('a')
    const isThere = await store.ping()
    await store.close()

    expect(server.output()).not.toContain('Bad directive')
    expect([found, isThere]).toEqual(['sealed', true])
    expect(codes).not.toContain('NOPERM')
    expect(await command('CONFIG GET maxmemory-policy')).toMatchObject({ 'maxmemory-policy': 'allkeys-lru' })
  })

  it.skipIf(isNotBuilt)('start a container with a mounted file', async () => {
    using folder = temporaryFolder()
    writeFileSync(folder.file('sync-bridge.ini'), iniText({ token_server_url: 'http://127.0.0.1:1' }))
    // In place of a container, the executable validates the settings, under their path outside the container.
    const podman = `podman() {
      [ "$1" = run ] || return 1
      while [ "$1" != IMAGE ]; do [ "$1" = -v ] && mount=$2; shift; done
      from=$(echo "$mount" | cut -d: -f1) to=$(echo "$mount" | cut -d: -f2)
      [ "$*" = "IMAGE serve --config $to" ] && "${executablePath}" check --offline --config "$from"
    }`
    writeFileSync(folder.file('run.sh'), `cd ${folder.path}\n${podman}\n${blockWith('podman run')}`)

    const checked = await runProgram(['bash', folder.file('run.sh')])

    expect(checked).toContain(`service.token_server_url = http://127.0.0.1:1`)
  })

  it.skipIf(isNotBuilt)('enable writes with valid settings', async () => {
    using folder = temporaryFolder()
    const file = folder.file('bridge.ini')
    writeFileSync(file, iniText({ token_server_url: 'http://127.0.0.1:1' }) + blockWith('_put_enabled'))

    const checked = await runProgram([executablePath, 'check', '--offline', '--config', file])

    expect(checked).toContain('service.record_bookmarks_put_enabled = true')
  })

  it('read the journal', async () => {
    using folder = temporaryFolder()
    const lines = blockWith('journalctl').trim().split('\n')

    for (const line of lines) {
      // An empty journal that returns at once: without matches it fails silently.
      const command = line.replace(/#.*$/, '').replace(/ -f\b/, '').trim()
      const quiet = `out=$(${command} -q --directory ${folder.path} 2>&1) || [ -z "$out" ]`
      await runProgram(['sh', '-c', quiet])
    }
    expect(lines.length).toBe(4)
  })

  it('have no code that is not run here', () => {
    const run = [
      'HOST=',
      'zcat',
      'podman run',
      'maxmemory-policy',
      'ACL SETUSER',
      'journalctl',
      '_put_enabled',
    ]
    // tests/examples/documents.test.ts runs these.
    run.push('> bridge.ini', "printf 'Authorization")
    // real-systemd-inside.sh runs these.
    run.push('sync-bridge@', 'tcp_migrate_req')
    // tests/operate/rotation.test.ts restarts two bridges behind HAProxy, one after the other.
    run.push('ssh bridge1')
    // tests/operate/install.test.ts runs this.
    run.push('ssh-keygen -Y verify')

    expect(blocks.filter((block) => !run.some((part) => block.includes(part)))).toEqual([])
  })

  it('show every limit with its value', () => {
    const section = /^## Limits[^]*?^## Memory/m.exec(text)![0]
    // A line of the list may go on in the next one.
    const lines = section.replaceAll('\n  ', ' ').split('\n')
    const lineWith = (start: string) => lines.find((line) => line.startsWith(start)) ?? ''
    const initial = (name: keyof typeof settingsSchema) => String(settingsSchema[name].initial)
    const mebibytes = (bytes: number) => `${bytes / 2 ** 20} MiB`
    const seconds = (ms: number) => `${ms / 1000} s`
    // Progress shows every 1.5 MB.
    const slower = (ms: number) => `below ${Number((1.5e6 / ms).toPrecision(1))} KB/s`
    const { ofHost } = callLimits(1024)
    const withFewSlots = callLimits(256)
    const bySetting: [row: string, figure: string][] = [
      ['| Body of a request', mebibytes(Number(initial('max_request_bytes')))],
      ['| Requests in a batch', initial('batch_max_requests')],
      ['| Time until a response', initial('request_timeout_seconds')],
      ['| Time until the token server', initial('upstream_timeout_seconds')],
      ['| Requests in flight (', initial('max_concurrent_requests')],
      ['| Requests in flight for one user', initial('max_concurrent_requests_per_user')],
    ]
    const byLimit: Record<keyof Limits, [line: string, ...figures: (string | number)[]]> = {
      callsPerUser: ['| Calls of one user', limits.callsPerUser],
      hostShare: ['| Calls to one host in flight', ofHost, `${100 * limits.hostShare} % of the 1024 slots`],
      commitShare: ['| Slots kept free', 1024 * limits.commitShare],
      lists: ['| Lists that stream |', limits.lists],
      listsPerHost: ['| Lists that stream from', limits.listsPerHost],
      listsPerUser: ['| Lists that stream to', limits.listsPerUser],
      rootViews: ['| Requests of `/v1/`', limits.rootViews],
      waitMs: ['| Wait for a turn', seconds(limits.waitMs)],
      memoryBytes: ['| Memory held', mebibytes(limits.memoryBytes)],
      batchResponseBytes: ['| Responses to the reads', mebibytes(limits.batchResponseBytes)],
      rejectAboveBytes: ['| Resident memory', mebibytes(limits.rejectAboveBytes)],
      firstByteMs: ['| First byte', seconds(limits.firstByteMs)],
      stalledReaderMs: ['| Stalled readers', seconds(limits.stalledReaderMs), slower(limits.stalledReaderMs)],
      yieldAfterMs: [
        '- While a user without any list waits',
        `after ${seconds(limits.yieldAfterMs)} at least`,
        slower(limits.yieldAfterMs),
      ],
    }
    const slots: [string, string] = [
      '- `BUN_CONFIG_MAX_HTTP_REQUESTS`',
      `With 256 slots, ${withFewSlots.ofHost} calls to one host and ${withFewSlots.calls} in all`,
    ]

    for (const [start, ...figures] of [...bySetting, ...Object.values(byLimit), slots])
      for (const figure of figures)
        // Not as the beginning of a longer number.
        expect(lineWith(start), `docs/scale.md, "${start}", lacks "${figure}"`).toMatch(
          new RegExp(` ${RegExp.escape(String(figure))}(?!\\.?\\d)`),
        )
  })

  it('list every retry with its figures', () => {
    const architecture = readFileSync(join(docs, 'architecture.md'), 'utf8')
    const rows = new Map([...architecture.matchAll(/^\| (\w+) \| .*$/gm)].map(([row, name]) => [name!, row]))

    for (const [name, { times, ...pauses }] of Object.entries(
      retries as Record<string, { times?: number }>,
    )) {
      const cells = rows.get(name)!.split('|')
      if (times !== undefined) expect(cells[4]!.trim()).toBe(String(times))
      expect(cells[5]!.match(/\d+/g)?.map(Number) ?? []).toEqual(
        expect.arrayContaining(Object.values(pauses).flat()),
      )
    }
  })

  it('say what to do about every alert', () => {
    const rules = readFileSync(join(docs, 'examples/alerts.yml'), 'utf8')
    const alerts = [...rules.matchAll(/- alert: (\w+)/g)].map(([, alert]) => alert!)
    const table = /^\| Alert \| Do \|\n\|---\|---\|\n((?:\|.*\n)+)/m.exec(text)![1]!
    const explained = [...table.matchAll(/^\| (.+?) \| (.+) \|$/gm)].flatMap(([, names]) =>
      [...names!.matchAll(/`(\w+)`/g)].map(([, name]) => name!),
    )

    expect(alerts.length).toBeGreaterThan(10)
    expect(explained.toSorted()).toEqual(alerts.toSorted())
  })

  it('name settings that exist', () => {
    const named = [...text.matchAll(/`(?:service\.)?([a-z]+(?:_[a-z]+)+)(?: = [^`]*)?`/g)]
    const names = named.map(([, name]) => name!)

    expect(names.length).toBeGreaterThan(15)
    const exists = (name: string) => Object.hasOwn(settingsSchema, name) || collectionGate(name) !== null
    expect(names.filter((name) => !exists(name))).toEqual([])
  })
})

describe('the page for contributors', () => {
  const root = join(import.meta.dir, '../..')
  const contributing = readFileSync(join(root, 'CONTRIBUTING.md'), 'utf8')

  it('has lines that test what they claim, and nothing else', () => {
    const named = [...contributing.matchAll(/^\|.*\bbun test (\S+?)[ `]/gm)].map(([, argument]) => argument!)

    expect(named.length).toBeGreaterThan(2)
    expect(named.filter((name) => !name.startsWith('./') || !existsSync(join(root, name)))).toEqual([])
  })

  it('names make targets that exist, and the version of the runtime', () => {
    const makefile = readFileSync(join(root, 'Makefile'), 'utf8')
    const targets = [...contributing.matchAll(/`make ([\w-]+)/g)].map(([, target]) => target!)

    expect(targets.filter((target) => !makefile.includes(`\n${target}:`))).toEqual([])
    expect(contributing).toContain(`bun@${Bun.version}`)
    expect(targets[0]).toBe('help')
  })

  it('describes a first contribution with functions that exist', async () => {
    const [, code] = /^```ts\n([^]*?)^```$/m.exec(contributing)!
    const imports = [...code!.matchAll(/^import \{ (.+) \} from '(.+)'$/gm)]

    const absent = []
    for (const [, names, path] of imports) {
      const module: object = await import(join(root, 'src/cli/data', path!))
      absent.push(...names!.split(', ').filter((name) => !Object.hasOwn(module, name)))
    }

    expect(imports.length).toBeGreaterThan(2)
    expect(absent).toEqual([])
  })
})

describe('the files for the repository host', () => {
  const root = join(import.meta.dir, '../..')
  const makefile = readFileSync(join(root, 'Makefile'), 'utf8')
  const read = (name: string) => readFileSync(join(root, name), 'utf8')

  it.each(['ci', 'release'])('include a workflow %s that only calls make targets', (name) => {
    const { jobs } = YAML.parse(read(`.github/workflows/${name}.yml`)) as {
      jobs: Record<string, { steps: { run?: string; uses?: string }[] }>
    }
    const steps = Object.values(jobs).flatMap((job) => job.steps)
    const commands = steps.flatMap(({ run }) => (run === undefined ? [] : [run]))
    const targets = commands.map((command) => /^make ([\w-]+)$/.exec(command)?.[1])

    expect(targets.length).toBeGreaterThan(1)
    for (const target of targets) expect(makefile).toContain(`\n${target}:`)
    for (const { uses } of steps) if (uses) expect(uses).toMatch(/^actions\/[\w-]+@v\d+$/)
  })

  it('include a dev container that starts the sandbox', () => {
    const { postCreateCommand, postAttachCommand } = JSON.parse(read('.devcontainer/devcontainer.json'))

    expect([postCreateCommand, postAttachCommand]).toEqual(['make build', 'make run'])
  })
})

describe('the page about the architecture', () => {
  it('names files that exist', () => {
    const root = join(import.meta.dir, '../..')
    const page = readFileSync(join(root, 'docs/architecture.md'), 'utf8')
    const folders = [...new Glob('*').scanSync({ cwd: join(root, 'src'), onlyFiles: false })]
    const named = [...page.matchAll(/\b([a-z]+)\/([a-z-]+)(?:\.ts)?\b(?!\/|\.test)/g)]
    const modules = named
      .filter(([, folder]) => folders.includes(folder!))
      .map(([, folder, file]) => `src/${folder}/${file}.ts`)

    expect(modules.length).toBeGreaterThan(15)
    expect(modules.filter((module) => !existsSync(join(root, module)))).toEqual([])
  })
})

describe('the limits', () => {
  it('are at most fourteen, so that an operator can know them: a new one takes the place of another', () => {
    expect(Object.keys(limits).length).toBeLessThanOrEqual(14)
  })
})

describe('docs/connect.md', () => {
  it('has the recipes of docs/examples; "make pages" writes them', () => {
    const page = readFileSync(join(docs, 'connect.md'), 'utf8')

    expect(page).toBe(connectPage())
    expect(page.match(/^\(async/gm)).toHaveLength(2)
  })
})
