import { describe, expect, it } from 'bun:test'

import { processHost } from '../../src/cli/host.ts'
import { createProgram, run, usageProblem } from '../../src/cli/run.ts'
import { exportFormats } from '../../src/client/export-formats.ts'
import { version } from '../../src/version.ts'
import { casesOf } from '../settings/cases.ts'
import { fakeHost, fakeCommands, minimalIni } from './fake-host.ts'

const healthcheckHelp = `Usage: sync-bridge healthcheck [options]

Check that a running service responds.

Exits 0 if the service returns 200 within five seconds, otherwise 1.

Options:
  --url <URL>  URL of the service, such as http://127.0.0.1:8000
  --deep       check the token server and the cache, too
  -h, --help   show this
`

const { readFile } = processHost()
const commands = createProgram().commands.map((command) => command.name())
const refused = casesOf(`
serv
  unknown command 'serv' (Did you mean serve?)
constructor
  unknown command 'constructor'
--verbose
  unknown option '--verbose'
serve --confg f
  unknown option '--confg' (Did you mean --config?)
exprt --help
  unknown command 'exprt' (Did you mean export?)
serve --toString
  unknown option '--toString'
serve --config
  option '-c, --config <FILE>' argument missing
serve --config=
  option '-c, --config <FILE>' needs a value
serve bridge.ini
  too many arguments for 'serve'. Expected 0 arguments but got 1: bridge.ini.
sandbox --upstream-only=yes
  unknown option '--upstream-only=yes'
sandbox --port 65536
  option '-p, --port <N>' argument '65536' is invalid. Write a number from 0 to 65535.
sandbox --seed tabs
  option '--seed <COLLECTION=COUNT>' argument 'tabs' is invalid. Write COLLECTION=COUNT, with a count up to 1000000.
sandbox --seed a/b=1
  option '--seed <COLLECTION=COUNT>' argument 'a/b=1' is invalid. Write COLLECTION=COUNT, with a count up to 1000000.
healthcheck
  required option '--url <URL>' not specified
healthcheck --url localhost
  --url "localhost" is not an http(s) URL
completion
  missing required argument 'SHELL'
completion tcsh
  command-argument value 'tcsh' is invalid for argument 'SHELL'. Use bash, zsh, fish.
completion bsh
  command-argument value 'bsh' is invalid for argument 'SHELL'. Did you mean bash?
export bookmark
  command-argument value 'bookmark' is invalid for argument 'WHAT'. Did you mean bookmarks?
export tabs -f firefox-json
  tabs cannot be written as firefox-json: use ${Object.keys(exportFormats.tabs).join(', ')}
export bookmarks --format xml
  option '-f, --format <FORMAT>' argument 'xml' is invalid. Use ${[...new Set(Object.values(exportFormats).flatMap(Object.keys))].join(', ')}.
backup dir --keep 0
  option '--keep <N>' argument '0' is invalid. Write a number from 1 to 999999.
export tabs --folder x
  --folder only applies to bookmarks
export -- --format
  command-argument value '--format' is invalid for argument 'WHAT'. Use bookmarks, history, passwords, tabs, everything.
rm bookmarks --site example.org
  --site only applies to history and passwords
ls --deleted
  --deleted needs a COLLECTION, such as bookmarks
watch --every 0
  option '--every <SECONDS>' argument '0' is invalid. Write a number from 1 to 99999.
`)

/** Command lines that are right, with other spellings of the same. */
const accepted = [
  ['export', '--', 'bookmarks'],
  ['export', 'bookmarks', '-o', 'f', '-fcsv', '--since=7d', '--folder', 'Menu'],
  ['export', '--output=f', 'tabs'],
  ['watch', 'Tabs', 'forms', '--every', '5'],
  ['restore', 'dir', 'tabs', '--id', 'a', '--id', 'b', '--write'],
  ['help', 'export'],
  ['export', '-h'],
  ['version'],
  ['-V'],
]

describe('run', () => {
  it.each(['--help', '-h', 'help'])('shows the help for %s', async (argument) => {
    const host = fakeHost()

    expect(await run([argument], host)).toBe(0)
    for (const name of commands) expect(host.out).toContain(`\n  ${name} `)
    expect(host.out).toContain('\nYour own data:\n  connect ')
    expect(host.out).toContain('\nA service for others:\n  serve ')
    expect(host.out).toContain('Exit codes: 0 success, 1 failure, 2 usage error or bad settings')
    expect(host.err).toBe('')
  })

  it('shows the help as an error without arguments', async () => {
    const host = fakeHost()

    expect(await run([], host)).toBe(2)
    expect(host.out).toBe('')
    expect(host.err).toStartWith('Usage: sync-bridge COMMAND [options]\n')
  })

  it.each(['--version', '-V', 'version'])('shows the version for %s', async (argument) => {
    const host = fakeHost()

    expect(await run([argument], host)).toBe(0)
    expect(host.out).toBe(`sync-bridge ${version} (commit unknown)\n`)
  })

  it.each(['--help', '-h'])(
    'shows the options of a command for %s, whatever else is given',
    async (argument) => {
      const host = fakeHost()

      expect(await run(['healthcheck', argument], host)).toBe(0)
      expect(host.out).toBe(healthcheckHelp)
    },
  )

  it('shows them for "help COMMAND" too, and no others', async () => {
    const host = fakeHost()

    expect(await run(['help', 'healthcheck'], host)).toBe(0)
    expect(host.out).toBe(healthcheckHelp)
    expect(await run(['help', 'healtcheck'], host)).toBe(2)
    expect(host.err).toContain("unknown command 'healtcheck' (Did you mean healthcheck?)")
  })

  it.each(refused)('rejects %j', async ([line], message) => {
    const host = fakeHost()
    const args = line!.split(' ')
    const command = commands.find((name) => name === args[0])

    expect(await run(args, host, fakeCommands())).toBe(2)
    expect(host.out).toBe('')
    expect(host.err).toBe(
      `sync-bridge: ${message}\nTry "sync-bridge ${command ? `${command} ` : ''}--help".\n`,
    )
  })

  it.each(accepted)('accepts %s %s %s', (...args) => {
    expect(usageProblem(args)).toBeNull()
  })

  it.each(['soon', '2026-02-30', '2026-13-01T00:00', '2026-01-31 (Saturday)'])(
    'takes %j for no date',
    (date) => {
      expect(usageProblem(['export', 'history', '--since', date])).toContain(
        `argument '${date}' is invalid. Write a date`,
      )
    },
  )

  it('refuses an option that an unset variable left empty', () => {
    expect(usageProblem(['export', 'tabs', '--output', ''])).toBe(
      "sync-bridge: option '-o, --output <FILE>' needs a value",
    )
  })

  it.each([['serve'], ['check']])('stops "%s" if settings contradict each other', async (command) => {
    const programs = fakeCommands()
    const host = fakeHost({ 'bridge.ini': `${minimalIni}service.metrics_listen = 127.0.0.1:8000\n` })

    expect(await run([command, '--config', 'bridge.ini'], host, programs)).toBe(2)
    expect([programs.served.length, programs.probed]).toEqual([0, 0])
    expect(host.err)
      .toBe(`bridge.ini:3: service.metrics_listen: is the address of this service itself: name another port
sync-bridge: 1 problem with the settings
`)
  })

  it('reports misspelt settings together with missing ones', async () => {
    const environment = {
      SERVICE_TOKEN_SERVER_URI: 'https://t.example',
      SERVICE_CACHE_HMAC_SECRET: 'ab'.repeat(32),
    }
    const host = fakeHost({}, environment)

    expect(await run(['serve'], host, fakeCommands())).toBe(2)
    expect(host.err.split('\n').slice(0, 2)).toEqual([
      'warning: environment: "SERVICE_TOKEN_SERVER_URI" is not a setting and is ignored: did you mean SERVICE_TOKEN_SERVER_URL?',
      expect.stringContaining('environment: service.token_server_url: is required'),
    ])
  })

  it('warns about settings that are allowed but rarely intended', async () => {
    const ini = `${minimalIni}service.host = 0.0.0.0\nservice.workers = 2\nservice.cache_backend = memory\n`
    const environment = { SERVICE_PROT: '1', SERVICE_ACCOUNT: 'x', SSL_CERT_FILE: '/etc/ca.pem' }
    const host = fakeHost({ 'bridge.ini': ini }, environment, { otherReaders: () => 'every user' })

    expect(await run(['serve', '--config', 'bridge.ini'], host, fakeCommands())).toBe(7)
    expect(host.err)
      .toBe(`warning: environment: "SERVICE_PROT" is not a setting and is ignored: did you mean SERVICE_PORT?
warning: bridge.ini:3: service.host: 0.0.0.0 can be reached from other machines without encryption: put a server with TLS in front, and set service.http_scheme = https
warning: bridge.ini:5: service.cache_backend: each worker has its own cache: use redis to share one
warning: bridge.ini: contains a secret and can be read by every user: chmod o-r bridge.ini
warning: environment: SSL_CERT_FILE adds trusted certificates: unset it, or set service.certificate_ca_bundle
`)
  })

  it('passes the options to the sandbox', async () => {
    const programs = fakeCommands()
    const flags = '--upstream-only --empty --log --port=1 --storage-port 0 --seed Tabs=3 --seed=forms=0'

    expect(await run(['sandbox', ...flags.split(' ')], fakeHost(), programs)).toBe(7)
    expect(await run(['sandbox'], fakeHost(), programs)).toBe(7)
    const seed = [
      ['tabs', 3],
      ['forms', 0],
    ]
    expect(programs.sandboxes as unknown[]).toEqual([
      { upstreamOnly: true, empty: true, log: true, port: 1, storagePort: 0, seed },
      {},
    ])
  })

  it.each(['init', 'completion bash', 'check --offline --config f', 'check --offline --config f --json'])(
    `fails if the output of "%s" can't be written`,
    async (line) => {
      const write = async () => Object.assign(new Error('full'), { code: 'ENOSPC' })
      const host = fakeHost({ f: minimalIni }, {}, { stdout: { isTty: false, isJournal: false, write } })

      expect(await run(line.split(' '), host)).toBe(1)
      expect(host.err).toEndWith('Cannot write to standard output: ENOSPC\n')
    },
  )

  it('reads settings from files, and relative names from their folder', async () => {
    const lines = ['token_server_url = https://token.example.org', 'certificate_ca_bundle = ca.pem']
    const ini = lines.map((line) => `service.${line}\n`).join('')
    const host = fakeHost({ '/etc/bridge.ini': ini, '/etc/ca.pem': '' })

    expect(await run(['serve', '--config', '/etc/bridge.ini'], host, fakeCommands())).toBe(2)
    expect(host.err).toStartWith(
      '/etc/bridge.ini:2: service.certificate_ca_bundle: the file "/etc/ca.pem" contains no certificate: ',
    )
    expect(host.err).toEndWith('sync-bridge: 2 problems with the settings\n')
  })

  it.each([
    ['/', 'is a directory'],
    ['/dev/zero', 'too large'],
    ['/nowhere.ini', 'no such file'],
  ])('does not read %s as settings', async (path, reason) => {
    const host = fakeHost({}, {}, { readFile })

    expect(await run(['serve', '--config', path], host, fakeCommands())).toBe(2)
    expect(host.err).toBe(
      `${path}: cannot be read (${reason}): specify the settings file with --config FILE\n`,
    )
  })
})
