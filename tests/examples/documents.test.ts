import { afterAll, describe, expect, it } from 'bun:test'
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { clientStateOf, syncKeyOf } from '../../src/sandbox/crypto.ts'
import { findPython, kintoHttp } from '../clients/python.ts'
import { endAll, executablePath, makeFolder, serve, start, startUpstream } from '../system/process.ts'

const root = join(import.meta.dir, '../..')
const python = await findPython()
const why = 'reason' in python ? ` (NOT RUN: ${python.reason})` : ''
afterAll(endAll)

/** The pieces of code of a document, in their order; those that a test has taken are crossed out. */
const documents = Object.fromEntries(
  ['README.md', 'docs/connect.md', 'docs/promises.md'].map((name) => {
    const text = readFileSync(join(root, name), 'utf8')
    return [name, [...text.matchAll(/^```(?:sh|js|ts)\n([^]*?)^```$/gm)].map(([, code]) => code!)]
  }),
)

/** Takes the piece of a document that has this text in it. */
function take(name: keyof typeof documents, text: string): string {
  const pieces = documents[name]!
  const [code] = pieces.splice(
    pieces.findIndex((piece) => piece.includes(text)),
    1,
  )
  if (!code?.includes(text)) throw new Error(`No piece of code in ${name} has "${text}" in it`)
  return code
}

describe('README.md', () => {
  it('names commands of the Makefile', async () => {
    const commands = take('README.md', 'make run').match(/^make \w+/gm)!

    const planned = await Promise.all(commands.map((command) => paste(`${command} --dry-run`, {}, root)))

    expect(planned.map(({ code }) => code)).toEqual([0, 0])
    expect(planned[0]!.output).toContain('dist/sync-bridge sandbox')
    expect(planned[1]!.output).toContain('tests/run.sh')
  })

  it('has the commands and the request for a bridge over data that is there already', async () => {
    const [build, init, check, run] = take('README.md', 'dist/sync-bridge init').trimEnd().split('\n')
    const request = take('README.md', '_limit=5')
    const { values } = await startUpstream()
    const folder = withExamples()
    const planned = await paste(`${build!.replace(/#.*/, '')} --dry-run`, {}, root)

    const made = await paste(init!, {}, folder)
    const settings = join(folder, 'bridge.ini')
    const tokenServer = `service.token_server_url = ${values.TOKEN_SERVER_URL}`
    const own = `service.port = 0\nservice.cache_backend = memory\n`
    const text = readFileSync(settings, 'utf8').replace(/^#?\s*service\.token_server_url = .*$/m, tokenServer)
    writeFileSync(settings, text + own)
    const checked = await paste(check!, {}, folder)
    const bridge = start(run!.split(' ').slice(1), { cwd: folder })
    const [, url] = await bridge.line(/"url":"([^"]+)"/)
    const asked = await paste(request.replace('http://127.0.0.1:8000', url!), values)
    bridge.signal('SIGTERM')
    await bridge.exited

    expect(planned).toMatchObject({ code: 0 })
    expect([made.code, checked.output, checked.code]).toEqual([0, expect.stringContaining('ok'), 0])
    expect(run).toBe('dist/sync-bridge serve --config bridge.ini')
    expect(JSON.parse(asked.output).data).toHaveLength(5)
  })

  it.skipIf('reason' in python)(`has examples that run as they stand, in their order${why}`, async () => {
    const sandbox = start(['sandbox', '--port', '0'])
    const [source] = await sandbox.line(/^ {2}\. \S+$/)
    const commands = take('README.md', 'first-steps.sh')

    const { output, errors, code } = await paste(`${source}\nset -e\n${commands}`)
    sandbox.signal('SIGTERM')
    await sandbox.exited

    expect([errors, code]).toEqual(['', 0])
    expect(output).toContain('"project_name":"Sync Bridge"')
    expect(output).toContain('bookmarks and folders')
    expect(output).toContain('history: 3000 records')
    expect(output).toContain('passwords: 0 to write, 0 different in the storage')
    expect(output).toContain('records in tabs')
  })
})

describe('docs/connect.md', () => {
  it('has a recipe that prints the four values, and so has the explorer', async () => {
    const { values } = await startUpstream()
    const recipe = take('docs/connect.md', 'getFxAccountsSingleton')
    const page = readFileSync(join(root, 'src/explorer/explore.html'), 'utf8')
    const lines: string[] = []
    const key = { kid: values.KEY_ID, k: Buffer.from(values.SYNC_KEY!, 'hex').toString('base64url') }
    const getFxAccountsSingleton = () => ({
      getOAuthTokenAndKey: async () => ({ token: values.BEARER_TOKEN, key }),
    })

    const AsyncFunction = (async () => {}).constructor as FunctionConstructor
    const run = new AsyncFunction('ChromeUtils', 'console', recipe)
    await run(
      { importESModule: () => ({ getFxAccountsSingleton }) },
      { log: (text: string) => lines.push(...text.split('\n')) },
    )

    const names = ['BUCKET', 'KEY_ID', 'BEARER_TOKEN', 'SYNC_KEY']
    expect(lines).toEqual(names.map((name) => `${name}=${values[name]}`))
    expect(page).toContain(recipe.trimEnd())
  })

  it('has requests and scripts that find the values in a file', async () => {
    const { values, tokenServerUrl } = await startUpstream()
    const bridge = await serve({ token_server_url: tokenServerUrl })
    const commands = take('docs/connect.md', 'account.env').replace('http://127.0.0.1:8000', bridge.url)
    const folder = withExamples()
    const names = ['BUCKET', 'KEY_ID', 'BEARER_TOKEN', 'SYNC_KEY']
    writeFileSync(join(folder, 'account.env'), names.map((name) => `${name}=${values[name]}\n`).join(''))

    const { output, code } = await paste(commands, {}, folder)
    bridge.signal('SIGTERM')
    await bridge.exited

    expect(code).toBe(0)
    expect(output).toContain('{"data":[{"id":"bookmarks"')
    expect(output).toContain('bookmarks and folders')
  })

  it('tells the bucket out of a key id, and the sync key out of a master key', async () => {
    const masterKey = Buffer.from(Array.from({ length: 32 }, (_, index) => 7 * index + 250))
    const clientState = clientStateOf(masterKey)
    const keyId = `1700000000000-${Buffer.from(clientState, 'hex').toString('base64url')}`

    const bucket = await paste(take('docs/connect.md', '${KEY_ID#*-}'), { KEY_ID: keyId })
    const key = await paste(take('docs/connect.md', 'openssl kdf'), { KB: masterKey.toString('hex') })

    expect(bucket).toEqual({ output: clientState, errors: '', code: 0 })
    expect(key.output.toLowerCase()).toBe(syncKeyOf(masterKey).toString('hex'))
  })
})

describe('the documents', () => {
  it('have no code that is not run here', () => {
    expect(documents).toEqual({
      'README.md': 'reason' in python ? [expect.any(String)] : [],
      'docs/connect.md': [],
      'docs/promises.md': [],
    })
  })

  it('link to files, and headings in them, that are there', async () => {
    const broken: string[] = []
    for (const name of [
      'README.md',
      'docs/connect.md',
      'docs/clients.md',
      'docs/promises.md',
      'docs/operate.md',
    ]) {
      const text = readFileSync(join(root, name), 'utf8')
      for (const [, target] of text.matchAll(/\]\((?!https?:)([^)]+)\)/g)) {
        const [path, anchor] = target!.split('#')
        const file = path === '' ? join(root, name) : join(root, dirname(name), path!)
        const isThere =
          anchor === undefined ? await exists(file) : anchors(readFileSync(file, 'utf8')).includes(anchor)
        if (!isThere) broken.push(`${name}: ${target}`)
      }
    }

    expect(broken).toEqual([])
  })

  it('link to no host of a package registry', () => {
    const names = [
      'README.md',
      'docs/connect.md',
      'docs/clients.md',
      'docs/promises.md',
      'docs/operate.md',
      'docs/decisions.md',
    ]
    const links = names.flatMap(
      (name) => readFileSync(join(root, name), 'utf8').match(/https?:\/\/[^\s)"'`]+/g) ?? [],
    )

    expect(links.filter((link) => /npmjs|pypi|crates\.io/.test(link))).toEqual([])
  })
})

describe('first_steps.py', () => {
  it.skipIf(!Bun.which('python3'))('tells how to install the package where it is missing', async () => {
    const { errors, code } = await paste('exec python3 -S docs/examples/python/first_steps.py tabs')

    expect(code).toBe(1)
    expect(errors).toContain(`  kinto-python/bin/pip install ${kintoHttp}\n`)
    expect(errors).toContain('  kinto-python/bin/python docs/examples/python/first_steps.py tabs\n')
  })
})

async function exists(path: string): Promise<boolean> {
  return (await Bun.file(path).exists()) || (await Bun.$`test -d ${path}`.nothrow().quiet()).exitCode === 0
}

function anchors(text: string): string[] {
  return [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading]) =>
    heading!
      .toLowerCase()
      .replaceAll(/[^\w\s-]/g, '')
      .replaceAll(' ', '-'),
  )
}

/** A folder that has the examples and the executable where the repository has them. */
function withExamples(): string {
  const folder = makeFolder()
  symlinkSync(join(root, 'docs'), join(folder, 'docs'))
  mkdirSync(join(folder, 'dist'))
  symlinkSync(executablePath, join(folder, 'dist/sync-bridge'))
  symlinkSync(process.execPath, join(folder, 'bun'))
  return folder
}

/** Types lines into a shell, in a folder that has what `withExamples` says unless told otherwise. */
async function paste(lines: string, environment: Record<string, string> = {}, cwd = withExamples()) {
  const pythonFolder = 'path' in python ? [dirname(python.path)] : []
  const child = Bun.spawn(['sh'], {
    cwd,
    env: { ...environment, PATH: [cwd, ...pythonFolder, '/usr/local/bin', '/usr/bin', '/bin'].join(':') },
    stdin: Buffer.from(`${lines}\n`),
    stdout: 'pipe',
    stderr: 'pipe',
    timeout: 50_000,
  })
  const [output, errors, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  return { output, errors, code }
}
