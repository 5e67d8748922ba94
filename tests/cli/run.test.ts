import { describe, expect, it } from 'bun:test'

import { run } from '../../src/cli/run.ts'
import { version } from '../../src/version.ts'
import { casesOf } from '../settings/cases.ts'
import { fakeHost, fakeCommands, minimalIni } from './fake-host.ts'

const help = `Sync Bridge serves a Firefox Sync storage through the Kinto record-storage protocol.

Usage: sync-bridge COMMAND [OPTIONS]

Your own data:
  connect     connect your account, with the values that your Firefox prints
  ls          list the collections of your account, or the records of one
  export      write your data, decrypted, to standard output or a file
  backup      back up your account into a folder
  restore     show what a backup would restore; with --write, restore it
  add         add a bookmark, the way Firefox does
  watch       print a line of JSON for each change
  open        show your data in your browser, decrypted there
  disconnect  revoke the access, and remove the account file

A service for others:
  serve         run the service in the foreground
  sandbox       run the service with an embedded Sync storage, to try it out
  check         validate the settings, and test token server, cache and address
  init          print an initial settings file with a new secret
  systemd-unit  print a hardened unit for systemd
  healthcheck   check that a running service responds
  completion    print completions for bash, zsh or fish

  help COMMAND  show the options of a command; also COMMAND --help
  version       show the version; also --version and -V

Exit codes: 0 success, 1 failure, 2 usage error or bad settings, 3 partial success.
To try it: sync-bridge sandbox. With your own data: sync-bridge connect
`

const healthcheckHelp = `Check that a running service responds.

Usage: sync-bridge healthcheck --url URL [--deep]

  --url URL  URL of the service, such as http://127.0.0.1:8000
  --deep     check the token server and the cache, too

Exits 0 if the service returns 200 within five seconds, otherwise 1.
`

const commands = ['serve', 'sandbox', 'init', 'healthcheck', 'completion']
const refused = casesOf(`
serv
  unknown command "serv": did you mean serve?
constructor
  unknown command "constructor"
--verbose
  unknown option "--verbose"
serve --confg f
  unknown option "--confg": did you mean --config?
serve -config
  unknown option "-c"
serve --toString
  unknown option "--toString"
serve --config
  --config needs a value
serve --config=
  --config needs a value
serve --config --help
  --config needs a value
serve --config a --config b
  --config is given twice
serve bridge.ini
  unexpected argument "bridge.ini"
sandbox --upstream-only=yes
  --upstream-only takes no value
sandbox --port 65536
  --port "65536" is not a port: write a number from 0 to 65535
sandbox --seed tabs
  --seed "tabs" is not COLLECTION=COUNT, with a count up to 1000000
sandbox --seed a/b=1
  --seed "a/b=1" is not COLLECTION=COUNT, with a count up to 1000000
healthcheck
  --url is missing
completion
  SHELL is missing: use bash or zsh or fish
completion tcsh
  SHELL "tcsh" is unknown: use bash or zsh or fish
completion zsh fish
  unexpected argument "fish"
`)

describe('run', () => {
  it.each(['--help', '-h', 'help'])('shows the help for %s', async (argument) => {
    const host = fakeHost()

    expect(await run([argument], host)).toBe(0)
    expect(host.out).toBe(help)
    expect(host.err).toBe('')
  })

  it('shows the help as an error without arguments', async () => {
    const host = fakeHost()

    expect(await run([], host)).toBe(2)
    expect(host.out).toBe('')
    expect(host.err).toBe(help)
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
    expect(await run(['help', 'serve', 'check'], host)).toBe(2)
    expect(host.err).toContain('unknown command "healtcheck": did you mean healthcheck?')
    expect(host.err).toContain('unexpected argument "check"')
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
    const host = fakeHost({ 'bridge.ini': ini }, environment, { isPublic: () => true })

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
    const seed = new Map(Object.entries({ tabs: 3, forms: 0 }))
    const ports = new Map(Object.entries({ port: 1, 'storage-port': 0 }))
    expect(programs.sandboxes).toEqual([
      { upstreamOnly: true, isEmpty: true, log: true, ports, seed },
      { upstreamOnly: false, isEmpty: false, log: false, ports: new Map(), seed: new Map() },
    ])
  })
})
