import { describe, expect, it } from 'bun:test'

import { readSettings, renderProblem, applyReloadable, type Settings } from '../../src/settings/settings.ts'
import { casesOf } from './cases.ts'
import { certificate } from './certificate.ts'

const secret = '52d914afd94b94716c8fb113dd4f0ae2f55ba31f3506b31562d2698e777e1208'
const least = `service.token_server_url = https://t.example.org\nservice.cache_hmac_secret = ${secret}\n`

interface World {
  environment?: Record<string, string>
  files?: Record<string, string>
}

function read(text: string | null, { environment = {}, files = {} }: World = {}) {
  return readSettings({
    file: text === null ? null : { path: 'etc/bridge.ini', text },
    environment,
    readFile(path) {
      if (Object.hasOwn(files, path)) return files[path]!
      throw Object.assign(new Error('no file'), { code: path.includes('locked') ? 'EACCES' : 'ENOENT' })
    },
  })
}

function settingsOf(text: string | null, world?: World): Settings {
  const outcome = read(text, world)
  if ('problems' in outcome) throw new Error(outcome.problems.map(renderProblem).join('\n'))
  return outcome.settings
}

function problemsOf(text: string | null, world?: World): string[] {
  const outcome = read(text, world)
  return 'problems' in outcome ? outcome.problems.map(renderProblem) : []
}

/** The contents of a file for the service. */
function decoded(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes)
}

describe('readSettings', () => {
  it('has a default for all that is not required', () => {
    expect(settingsOf(least)).toMatchObject({
      port: 8000,
      httpHost: null,
      cacheUrl: { kind: 'server', endpoints: [{ host: '127.0.0.1', port: 6379 }], database: 0, tls: false },
      cacheHmacSecret: Uint8Array.fromHex(secret),
      corsOrigins: null,
      writable: { put: new Set(), delete: new Set() },
    })
  })

  it('reads service.<name> in any section and <name> in [service], in any case', () => {
    const { port, workers, host } = settingsOf(
      `service.port = 1\n[app:main]\nService.workers = 2\n[Service]\nhost = ::1\n${least}`,
    )

    expect({ port, workers, host }).toEqual({ port: 1, workers: 2, host: '::1' })
  })

  it('ignores lines of other programs', () => {
    const other =
      'sevice.colour = blue\n[app:main]\nlogging.level = 3\nuse = egg:x\npyramid.includes =\n    one\n    readonly = true\nuse = egg:y\nwords\nports = x\n'

    expect(settingsOf(other + least).port).toBe(8000)
  })

  it('lets the environment override the file, and the file the credentials directory', () => {
    const files = {
      '/run/c/cache_hmac_secret': '77'.repeat(32),
      '/run/c/cache_hmac_secret_previous': `${secret}\n`,
    }
    const world = {
      environment: { SERVICE_PORT: ' "2" ', PORT: '3', CREDENTIALS_DIRECTORY: '/run/c' },
      files,
    }

    const settings = settingsOf(`${least}service.port = 1\n`, world)
    const outcome = read(`${least}service.port = 1\n`, world)

    expect('warnings' in outcome && outcome.warnings.join('\n')).toContain(
      'service.cache_hmac_secret: overrides the credential: remove this line',
    )
    expect(settings.port).toBe(2)
    expect(settings.cacheHmacSecret).toEqual(Uint8Array.fromHex(secret))
    expect(settings.cacheHmacSecretPrevious).toEqual(Uint8Array.fromHex(secret))
  })

  it('reports the source of each setting', () => {
    const outcome = read('service.token_server_url = http://t\n', {
      environment: { SERVICE_RECORD_TABS_PUT_ENABLED: 'yes', CREDENTIALS_DIRECTORY: '/c' },
      files: { '/c/cache_hmac_secret': secret },
    })
    const effective = 'effective' in outcome ? outcome.effective : []
    const sources = Object.fromEntries(effective.map(({ name, source, secret }) => [name, [source, secret]]))

    expect(sources).toMatchObject({
      port: ['default', false],
      token_server_url: ['etc/bridge.ini:1', false],
      cache_hmac_secret: ['credential cache_hmac_secret', true],
      record_tabs_put_enabled: ['environment SERVICE_RECORD_TABS_PUT_ENABLED', false],
    })
    expect(effective).toContainEqual({ name: 'port', text: '8000', source: 'default', secret: false })
  })

  it('enables writes by canonical names of collections, from the file and the environment', () => {
    const text = `${least}service.record_Tabs_put_enabled = on
service.record_extension-storage_put_enabled = TRUE
service.record_forms_put_enabled = 0
service.record_history_delete_enabled = yes
service.record_passwords_delete_enabled = true
service.record_a_put_enabled_delete_enabled = 1
`
    const environment = {
      SERVICE_RECORD_BOOKMARKS_DELETE_ENABLED: '1',
      'service_record_Extension-Storage_delete_enabled': 'Yes',
      SERVICE_RECORD_PASSWORDS_DELETE_ENABLED: 'off',
    }

    expect(settingsOf(text, { environment }).writable).toEqual({
      put: new Set(['tabs', 'extension-storage']),
      delete: new Set(['history', 'bookmarks', 'extension-storage', 'a_put_enabled']),
    })
  })

  it.each([
    ['https://t.example.org', 'https://t.example.org'],
    ['http://T.example.org:5000/', 'http://t.example.org:5000'],
    ['https://t.example.org/1.0/sync/1.5', 'https://t.example.org'],
    ['https://t.example.org/tokens/1.0/sync/1.5/', 'https://t.example.org/tokens'],
  ])('reads the token server %s', (text, value) => {
    const [, secretLine] = least.split('\n')

    expect(settingsOf(`service.token_server_url = ${text}\n${secretLine}`).tokenServerUrl).toBe(value)
  })

  it.each([
    ['host', '[::1]', { host: '::1' }],
    ['port', '0', { port: 0 }],
    ['http_host', 'Sync.example.org:8443', { httpHost: 'sync.example.org:8443' }],
    ['http_host', '[2001:db8::1]:80', { httpHost: '[2001:db8::1]:80' }],
    ['upstream_timeout_seconds', '0.25', { upstreamTimeoutSeconds: 0.25 }],
    ['cache_url', 'rediss://:p%40ss@[::1]:6380', { cacheUrl: { password: 'p@ss', tls: {} } }],
    ['cache_prefix', '', { cachePrefix: '' }],
    ['cache_hmac_secret_previous', '1234567890'.repeat(7).slice(0, 64), { workers: 1 }],
    ['readonly', '"true"', { readonly: true }],
    ['metrics_enabled', 'OFF', { metricsEnabled: false }],
    ['backoff', '0', { backoff: 0 }],
    ['backoff', '', { backoff: null }],
    ['eos', '2031-12-31', { eos: { text: '2031-12-31', atMs: Date.UTC(2031, 11, 31) } }],
    [
      'eos',
      '2031-12-31T01:00+02:00',
      { eos: { text: '2031-12-31T01:00+02:00', atMs: Date.UTC(2031, 11, 30, 23) } },
    ],
    [
      'cors_origins',
      'https://a.example/, http://b:8080',
      { corsOrigins: new Set(['https://a.example', 'http://b:8080']) },
    ],
    [
      'cors_origins',
      'moz-extension://0a1b https://c:443',
      { corsOrigins: new Set(['moz-extension://0a1b', 'https://c']) },
    ],
    ['metrics_listen', '[::1]:9100', { metricsListen: { host: '::1', port: 9100 } }],
    ['statsd_url', 'udp://[::1]:8125', { statsdUrl: { host: '::1', port: 8125 } }],
  ])('reads %s = %s', (name, text, expected) => {
    expect(settingsOf(`${least}service.${name} = ${text}\n`)).toMatchObject(expected as object)
  })

  it('reads a certificate bundle relative to the file', () => {
    const pem = `# mine\n${certificate}\n${certificate}`
    const settings = settingsOf(`${least}service.certificate_ca_bundle = ca.pem\n`, {
      files: { 'etc/ca.pem': pem },
    })

    expect(settings.certificateCaBundle).toBe(pem)
  })

  it('includes the certificates that cache_url names in its value', () => {
    const effective = 'rediss://:p@h/1?cacert=my%20ca.pem'
    const outcome = read(`${least}service.cache_url = ${effective}\n`, {
      files: { 'etc/my ca.pem': certificate },
    })

    if ('problems' in outcome) throw new Error('It was refused')
    expect(outcome.settings.cacheUrl).toMatchObject({ password: 'p', database: 1, tls: { ca: certificate } })
    expect(outcome.effective).toContainEqual(expect.objectContaining({ name: 'cache_url', text: effective }))
  })

  const broken = casesOf(`
host =
host = 1.2.3
  % is not an address: write an IP address or a host name
port =
port = 0x50
port = 1e3
  % is not an integer: write a number from 0 to 65535
port = 65536
  % is out of range: write a number from 0 to 65535
port = 80 ; usual
  % is not an integer: write a number from 0 to 65535, and comments on separate lines
workers = 0
  % is out of range: write a number from 1 to 256
worker_timeout_seconds = 0.05
  % is out of range: write a number of seconds from 1 to 3600
http_scheme = HTTPS
  % is not a valid choice: use http or https
http_host = https://x/
http_host = x:0
http_host = bridge.1
  % is not a host: write the host name, with :PORT if it is not the default, without http:// and path
http_api_version = 1
  % is not a version: write MAJOR.MINOR, such as 1.5
project_name =
  is empty: write some text
project_docs = docs
  % is not a URL: write a URL that begins with https:// or http://
upstream_timeout_seconds = 0
  % is out of range: write a number of seconds from 0.001 to 3600
request_timeout_seconds = 30s
  % is not a number: write a number of seconds from 0.001 to 3600
cache_backend = memcached
  % is not a valid choice: use redis or memory
cache_url = http://:hunter2@h
cache_url = redis://:hunter2@h:0
cache_url = redis://:hunter2@h?cacert=ca.pem
  is not a Redis address: write redis://HOST:PORT/DATABASE, rediss://HOST:PORT/DATABASE for TLS, unix:///PATH, redis+sentinel://HOST:PORT,HOST:PORT/MASTER/DATABASE or redis+cluster://HOST:PORT,HOST:PORT
cache_url = rediss://:hunter2@h?cacert=no%20such.pem
  cacert: cannot read the file "etc/no such.pem" (no such file): name a PEM file with at least one certificate, or remove cacert to trust the system's authorities
cache_hmac_secret_previous = hunter2
  is not hexadecimal: write 64 hexadecimal characters; "sync-bridge init" generates a secret
cache_hmac_secret_previous = 2d914afd94b94716c8fb113dd4f0ae2f55ba31f3506b31562d2698e777e1208
  has 63 characters instead of 64: write 64 hexadecimal characters; "sync-bridge init" generates a secret
cache_hmac_secret_previous = FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF
cache_hmac_secret_previous = DEADBEEFDEADBEEFDEADBEEFDEADBEEFDEADBEEFDEADBEEFDEADBEEFDEADBEEF
  is a well-known secret: write 64 hexadecimal characters; "sync-bridge init" generates a secret
cache_credentials_ttl_seconds = 0
  % is out of range: write a number from 1 to 86400
batch_max_requests = 0
  % is out of range: write a number from 1 to 1000
readonly = once
readonly =
  % is not a boolean: write true or false
record_tabs_enabled = true
  unknown setting: did you mean service.record_<collection>_put_enabled or record_<collection>_delete_enabled?
backoff = -1
  % is out of range: write a number from 0 to 86400
eos = 2031-02-30
eos = 2031-12-31T12:00
eos = 2031-12-31 12:00Z
  % is not a date: write a date such as 2031-12-31, or a date and time with zone such as 2031-12-31T12:00:00Z
cors_origins = https://ok.example, https://a/path
  "https://a/path" is not an origin: write *, or origins such as https://app.example.org separated by commas
cors_origins = https://ok.example, null
  "null" is not an origin: write *, or origins such as https://app.example.org separated by commas
cors_origins = https://*.example.org
  "https://*.example.org" is not an origin: write *, or origins such as https://app.example.org separated by commas
cors_origins = *, https://a
  combines "*" with other origins: write *, or origins such as https://app.example.org separated by commas
readable_collections = crypto, All
  combines "all" with other names: write all, or names such as crypto, tabs
metrics_listen = 9100
  % is not an address with a port: write HOST:PORT, such as 127.0.0.1:9100
statsd_url = udp://localhost
  % is not a UDP address: write udp://HOST:PORT
logging_renderer = pretty
  % is not a valid choice: use json or text
logging_level = INFO
  % is not a valid choice: use debug or info or warning or error
prot = 1
  unknown setting: did you mean service.port?
Port = 1
  unknown setting: did you mean service.port?
colour = 1
  unknown setting: remove it, or see "sync-bridge init" for all
cache_hmac_secert = x
  unknown setting: did you mean service.cache_hmac_secret?
toString = 1
  unknown setting: remove it, or see "sync-bridge init" for all
port
  has no "=": write key = value
certificate_ca_bundle =
  is empty: name a PEM file with at least one certificate, or remove the setting to trust the system's authorities
certificate_ca_bundle = none.pem
  cannot read the file "etc/none.pem" (no such file): name a PEM file with at least one certificate, or remove the setting to trust the system's authorities
certificate_ca_bundle = /locked.pem
  cannot read the file "/locked.pem" (permission denied): name a PEM file with at least one certificate, or remove the setting to trust the system's authorities
certificate_ca_bundle = key.pem
  the file "etc/key.pem" contains no certificate: name a PEM file with at least one certificate, or remove the setting to trust the system's authorities
certificate_ca_bundle = torn.pem
  certificate 2 of 2 in the file "etc/torn.pem" cannot be read: name a PEM file with at least one certificate, or remove the setting to trust the system's authorities
`)
  const files = {
    'etc/key.pem': '-----BEGIN PRIVATE KEY-----\nMC4C\n-----END PRIVATE KEY-----\n',
    'etc/torn.pem': `${certificate}-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n`,
  }

  // The sign % stands for the quoted value.
  it.each(broken.flatMap(([lines, message]) => lines.map((line) => [line, message] as const)))(
    'rejects %s',
    (line, message) => {
      const [, key, value = ''] = /^([^ ]+)(?: = ?(.*))?$/.exec(line.replace(/=$/, '= '))!
      const problems = problemsOf(`${least}service.${line}\n`, { files })

      const told = message.replace(/^%/, () => JSON.stringify(value))
      expect(problems).toEqual([`etc/bridge.ini:3: service.${key}: ${told}`])
      expect(problems.join()).not.toContain('hunter2')
    },
  )

  it.each([
    ['ftp://t', '"ftp://t" is not an http(s) URL'],
    ['https://', '"https://" is not an http(s) URL'],
    ['https://u:hunter2@t', 'contains a user name or password'],
    ['hunter2@t', 'the value is not an http(s) URL'],
    ['https://t/?', 'contains a query or fragment'],
  ])('rejects the token server %s', (url, message) => {
    const [, secretLine] = least.split('\n')

    expect(problemsOf(`service.token_server_url = ${url}\n${secretLine}`)).toEqual([
      `etc/bridge.ini:1: service.token_server_url: ${message}: write a URL such as https://token.example.org, without login, query or fragment`,
    ])
  })

  it('rejects an empty secret, and does not quote it', () => {
    const [urlLine] = least.split('\n')

    expect(problemsOf(`${urlLine}\nservice.cache_hmac_secret =\n`)).toEqual([
      'etc/bridge.ini:2: service.cache_hmac_secret: is empty: write 64 hexadecimal characters; "sync-bridge init" generates a secret',
    ])
  })

  it('lists all problems: lines in their order, then the environment, then what is missing', () => {
    const text =
      'service.prot = 1\nservice.port = x\n[service\n[]\n[s] a = 1\n[service]\nport = 2\nwords\n= 3\nhost = a\n  b\nbackoff = 9\u2028a = b\n'
    const environment = { SERVICE_WORKERS: 'many' }

    expect(problemsOf(text, { environment }).map((line) => line.split(': ').slice(0, 3).join(': '))).toEqual([
      'etc/bridge.ini:1: service.prot: unknown setting',
      'etc/bridge.ini:2: service.port: "x" is not an integer',
      'etc/bridge.ini:3: is not a section header: write [name], and nothing else on that line',
      'etc/bridge.ini:4: is not a section header: write [name], and nothing else on that line',
      'etc/bridge.ini:5: is not a section header: write [name], and nothing else on that line',
      'etc/bridge.ini:7: service.port: is given twice, first on line 2',
      'etc/bridge.ini:8: service.words: has no "="',
      'etc/bridge.ini:9: has no key before "=": write key = value',
      'etc/bridge.ini:11: service.host: is indented, as if it continued the line above',
      'etc/bridge.ini:12: contains U+2028 or U+2029, which end no line here: use line feeds',
      'environment SERVICE_WORKERS: service.workers: "many" is not an integer',
      'etc/bridge.ini: service.token_server_url: is required',
      'etc/bridge.ini: service.cache_hmac_secret: is required',
    ])
  })

  it.each([
    ['readonly = true', 'readonly', 'readonly'],
    ['Readonly: true', 'Readonly', 'readonly'],
    ['record_tabs_put_enabled = true', 'record_tabs_put_enabled', 'record_tabs_put_enabled'],
    ['export SERVICE_READONLY=true', 'export SERVICE_READONLY', 'readonly'],
    ['sevice.readonly = true', 'sevice.readonly', 'readonly'],
    ['sync_bridge.readonly = true', 'sync_bridge.readonly', 'readonly'],
  ])('rejects the line %j outside [service]', (line, key, setting) => {
    const message =
      `${key}: is outside [service] and lacks the prefix "service.": ` +
      `write service.${setting} = …, or move it into a section [service]`

    expect(problemsOf(`${line}\n${least}`)).toEqual([`etc/bridge.ini:1: ${message}`])
    expect(problemsOf(`${least}[app:main]\nuse = x\n${line}\n`)).toEqual([`etc/bridge.ini:5: ${message}`])
  })

  it('warns about a removed setting, in the file and in the environment', () => {
    const outcome = read(`${least}service.max_event_loop_lag_ms = 0\n`, {
      environment: { SERVICE_MAX_EVENT_LOOP_LAG_MS: '1' },
    })

    const gone = 'this setting no longer exists and is ignored: remove it'
    expect('warnings' in outcome && outcome.warnings).toEqual([
      `etc/bridge.ini:3: service.max_event_loop_lag_ms: ${gone}`,
      `environment SERVICE_MAX_EVENT_LOOP_LAG_MS: ${gone}`,
    ])
  })

  it.each([
    ['All', null],
    ['tabs', ['tabs']],
    ['Tabs, bookmarks,crypto', ['tabs', 'bookmarks', 'crypto']],
  ])('reads the collections that clients can read: %s', (text, names) => {
    const outcome = read(`${least}service.readable_collections = ${text}\n`)

    expect('settings' in outcome && outcome.settings.readableCollections).toEqual(names && new Set(names))
  })

  it.each(['', 'tabs,', 'a b', '..'])('rejects %j as names of collections', (text) => {
    expect(problemsOf(`${least}service.readable_collections = ${text}\n`)[0]).toContain(
      'not a collection name',
    )
  })

  it.each([
    ['{\n  "service": { "port": 80 }\n}\n', 1, 'JSON'],
    ['\n { "readonly": true }', 2, 'JSON'],
    [decoded(Buffer.from('\uFEFFservice.port = 80\n', 'utf16le')), 1, 'UTF-16 or binary'],
    [decoded(Buffer.from('service.port = 80\nservice.project_name = Café\n', 'latin1')), 2, 'not UTF-8'],
  ])('rejects a file of another format: %j', (text, line, format) => {
    const remedy =
      format === 'JSON'
        ? 'write one line "service.<name> = value" for each setting'
        : 'save the file as UTF-8'

    // Nothing of it was read, so nothing is said about missing settings.
    expect(problemsOf(text)).toEqual([`etc/bridge.ini:${line}: is ${format}: ${remedy}`])
  })

  it('treats two spellings of one collection as one setting', () => {
    const text = `${least}service.record_tabs_put_enabled = 1\nservice.record_TABS_put_enabled = 0\n`

    expect(problemsOf(text)).toEqual([
      'etc/bridge.ini:4: service.record_tabs_put_enabled: is given twice, first on line 3: keep one of the two',
    ])
  })

  it('rejects two variables for one setting', () => {
    const environment = {
      SERVICE_RECORD_TABS_PUT_ENABLED: 'no',
      service_record_tabs_put_enabled: 'yes',
    }

    expect(problemsOf(least, { environment })).toEqual([
      'environment service_record_tabs_put_enabled: service.record_tabs_put_enabled: ' +
        'is given twice, first as environment SERVICE_RECORD_TABS_PUT_ENABLED: keep one of the two',
    ])
  })

  it('distinguishes an unreadable credential from a missing one', () => {
    expect(problemsOf(least, { environment: { CREDENTIALS_DIRECTORY: '/nowhere' } })).toEqual([])
    expect(problemsOf(least, { environment: { CREDENTIALS_DIRECTORY: '/locked' } })[0]).toBe(
      'credential cache_hmac_secret: service.cache_hmac_secret: cannot be read (permission denied): make the credential readable for the service',
    )
  })

  it('quotes values on one line, cut to a readable length', () => {
    const [problem] = problemsOf(least, {
      environment: { SERVICE_PORT: `a\n\x1b[31m\u2028${'b'.repeat(1000)}` },
    })

    expect(problem).toBe(
      `environment SERVICE_PORT: service.port: "a\\n\\u001b[31m\\u2028${'b'.repeat(72)}…" is not an integer: write a number from 0 to 65535`,
    )
  })

  it('warns about variables that look like settings, and no others', () => {
    const environment = {
      SERVICE_PROT: '1',
      SERVICE_RECORD_TABS_PUT: '1',
      SERVICE_ACCOUNT_NAME: 'x',
      service_port: '1',
    }
    const outcome = read(least, { environment })

    expect('warnings' in outcome && outcome.warnings).toEqual([
      'environment: "SERVICE_PROT" is not a setting and is ignored: did you mean SERVICE_PORT?',
      'environment: "SERVICE_RECORD_TABS_PUT" is not a setting and is ignored: did you mean SERVICE_RECORD_<COLLECTION>_PUT_ENABLED?',
      'environment: "service_port" is not a setting and is ignored: did you mean SERVICE_PORT?',
    ])
  })

  it('warns about collections that Firefox does not have', () => {
    const environment = { SERVICE_RECORD_EXTENSION_STORAGE_DELETE_ENABLED: '0' }
    const lines = ['bookmark', 'Tab', 'tabs', 'notes'].map(
      (name) => `service.record_${name}_put_enabled = 1\n`,
    )
    const readable = 'service.readable_collections = crypto, TAB, tabs\n'
    const outcome = read(least + lines.join('') + readable, { environment })

    expect('warnings' in outcome && outcome.warnings).toEqual([
      'etc/bridge.ini:3: service.record_bookmark_put_enabled: Firefox has no collection "bookmark": did you mean bookmarks?',
      'etc/bridge.ini:4: service.record_tab_put_enabled: Firefox has no collection "tab": did you mean tabs?',
      'etc/bridge.ini:6: service.record_notes_put_enabled: Firefox has no collection "notes": Firefox has addons, addresses, bookmarks, clients, creditcards, crypto, extension-storage, forms, history, meta, passwords, prefs, tabs',
      'etc/bridge.ini:7: service.readable_collections: Firefox has no collection "tab": did you mean tabs?',
      'environment SERVICE_RECORD_EXTENSION_STORAGE_DELETE_ENABLED: service.record_extension_storage_delete_enabled: Firefox has no collection "extension_storage": did you mean extension-storage?',
    ])
  })
})

describe('applyReloadable', () => {
  it('applies what needs no restart, and names every other change', () => {
    const running = settingsOf(`${least}service.record_tabs_put_enabled = 1\nservice.eos = 2031-12-31\n`)
    const read = settingsOf(
      `${least}service.record_forms_delete_enabled = 1\nservice.readonly = 1\nservice.port = 1\nservice.workers = 2\n`,
    )

    const { changed, waiting } = applyReloadable(running, read)

    expect(changed).toEqual(['record_tabs_put_enabled', 'record_forms_delete_enabled', 'readonly', 'eos'])
    expect(waiting).toEqual(['port', 'workers'])
    expect(running).toEqual({ ...read, port: 8000, workers: 1 })
    expect(applyReloadable(running, read)).toEqual({ changed: [], waiting: ['port', 'workers'] })
  })
})
