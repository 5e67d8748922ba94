import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { closeSync, openSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'

import { startSandbox, type Sandbox } from '../support/sandbox.ts'
import { freePort } from '../support/free-port.ts'
import { eventually } from '../support/eventually.ts'
import { endAll, executablePath, iniText, makeFolder, start } from '../support/executable.ts'

/** Their log lines exceed a pipe and the queue in front of it. */
const manyRequests = 5_000
const connections = 40

let sandbox: Sandbox

beforeAll(async () => {
  sandbox = await startSandbox()
})

afterAll(() => sandbox.stop())

afterAll(endAll)

// The executable, because only a process has an output that is full, closed or never read.
describe('serve whose standard output', () => {
  // What can't be written is dropped at once; only a pipe that is not read must be filled.
  it.each([
    ['is never read', manyRequests],
    ['was closed by its reader', 500],
    ['is a full disk', 500],
  ])(
    '%s answers every request, and stops as usual',
    async (kind, requests) => {
      const port = freePort()
      const settings = {
        token_server_url: sandbox.tokenServerUrl,
        port: `${port}`,
        logging_level: 'debug',
      }
      const cwd = makeFolder({ 'bridge.ini': iniText(settings) })
      const { stdout, close } = open(kind, cwd)
      const bridge = start(['serve', '--config', 'bridge.ini'], { cwd, stdout })
      close()
      const url = `http://127.0.0.1:${port}`
      await eventually('it listens', async () => (await fetch(`${url}/__lbheartbeat__`)).ok)

      const user = sandbox.addUser(kind)
      const headers = {
        Authorization: `Bearer ${user.bearerToken()}`,
        'X-KeyID': user.keyId,
        'User-Agent': 'x'.repeat(250),
      }
      const statuses = new Map<number | string, number>()
      let left = requests
      await Promise.all(
        Array.from({ length: connections }, async () => {
          while ((left -= 1) >= 0) {
            const path =
              left % 50 === 0 ? `buckets/${user.clientState}/collections/tabs/records` : '__version__'
            const status = await fetch(`${url}/v1/${path}`, { headers }).then(
              async (response) => (await response.text(), response.status),
              (error: Error) => error.message,
            )
            statuses.set(status, (statuses.get(status) ?? 0) + 1)
          }
        }),
      )
      const code = await bridge.stop()

      expect([...statuses]).toEqual([[200, requests]])
      expect(code).toBe(0)
    },
    300_000,
  )
})

/** A file descriptor for the child, and what to do once it has it. */
function open(kind: string, folder: string): { stdout: number; close(): void } {
  if (kind === 'is a full disk') {
    const full = openSync('/dev/full', 'w')
    return { stdout: full, close: () => closeSync(full) }
  }
  const pipe = join(folder, 'pipe')
  Bun.spawnSync(['mkfifo', pipe])
  // Opened for both directions, because opening a pipe for one waits for the other.
  const reader = openSync(pipe, 'r+')
  const stdout = openSync(pipe, 'w')
  process.once('exit', () => kind === 'is never read' && closeSync(reader))
  return {
    stdout,
    close() {
      closeSync(stdout)
      if (kind === 'was closed by its reader') closeSync(reader)
    },
  }
}

describe('serve whose output is the systemd journal', () => {
  /** Its output on both streams, which are the same file, until it has exited. */
  async function outputOf(stream: (file: string) => string): Promise<string[]> {
    const cwd = makeFolder({
      'bridge.ini': iniText({
        token_server_url: sandbox.tokenServerUrl,
        port: '0',
        record_bookmark_put_enabled: 'true',
      }),
    })
    const file = join(cwd, 'output')
    const descriptor = openSync(file, 'a')
    const bridge = Bun.spawn([executablePath, 'serve', '--config', 'bridge.ini'], {
      cwd,
      env: { JOURNAL_STREAM: stream(file) },
      stdio: ['ignore', descriptor, descriptor],
    })
    closeSync(descriptor)
    await eventually('it listens', () => Promise.resolve(readFileSync(file, 'utf8').includes('listening')))
    bridge.kill('SIGTERM')
    await bridge.exited
    return readFileSync(file, 'utf8').trimEnd().split('\n')
  }

  it('gives every line its priority', async () => {
    const lines = await outputOf((file) => `${statSync(file).dev}:${statSync(file).ino}`)

    expect(lines[0]).toStartWith('<4>warning: bridge.ini:')
    expect(lines.length).toBeGreaterThan(2)
    expect(lines.slice(1).filter((line) => !line.startsWith('<6>{"time":'))).toEqual([])
  })

  it('writes none if the output has been redirected', async () => {
    const lines = await outputOf((file) => `${statSync(file).dev}:${statSync(file).ino + 1}`)

    expect(lines.filter((line) => line.startsWith('<'))).toEqual([])
  })
})
