import { existsSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { startWorld } from './world.ts'
import type { Person, World } from './world.ts'

const kintoHttp = 'kinto-http==11.11.0'
const example = join(import.meta.dir, '../../docs/examples/python/first_steps.py')
const calls = join(import.meta.dir, 'python_calls.py')

const python = await findPython()
// Where Python or the package can't be had, the reason shows in the name of what isn't run.
const why = 'reason' in python ? ` (NOT RUN: ${python.reason})` : ''
const itWithPython = it.skipIf('reason' in python)

describe(`Python ${kintoHttp}${why}`, () => {
  let world: World
  if (!('reason' in python)) {
    beforeAll(async () => {
      world = await startWorld({ settings: { project_name: 'Bridge under test' } })
    })
    afterAll(() => world.stop())
  }

  itWithPython('takes the first steps of the documentation with an access token', async () => {
    const person = world.person()
    person.firefox.write('one', 'One')
    const time = person.firefox.write('-Two', 'Two')

    const { output, code } = await run([example, 'bookmarks'], {
      ...place(world, person),
      BEARER_TOKEN: person.user.bearerToken(),
      KEY_ID: person.user.keyId,
    })

    expect(output.split('\n')).toEqual([
      'Bridge under test has 2 records in bookmarks',
      expect.stringMatching(new RegExp(`^${time} -Two \\(\\d+ bytes, encrypted\\)$`)),
      expect.stringMatching(/^\d+ one \(/),
      'the newest of them, asked for alone: -Two',
      `as of ${time}`,
      '',
    ])
    expect(code).toBe(0)
  })

  itWithPython('takes them with an assertion', async () => {
    const person = world.person()

    const { output, code } = await run([example, 'tabs'], {
      ...place(world, person),
      ASSERTION: person.user.assertion(),
    })

    expect(output).toBe('Bridge under test has 0 records in tabs\nas of 0\n')
    expect(code).toBe(0)
  })

  itWithPython('gets from every call what it expects, or what the documentation warns of', async () => {
    const person = world.person()
    for (const id of ['-dash', '-Dash', '{guid}']) person.firefox.write(id, id)

    const { output } = await run([
      calls,
      `${world.url}/v1`,
      person.bucket,
      person.user.bearerToken(),
      person.user.keyId,
    ])

    expect(JSON.parse(output)).toEqual({
      settings: 25,
      create: 'one',
      'create again': 'HTTP 412',
      'create if needed': 'r',
      update: 'two',
      'stale update': 'HTTP 412',
      'generated id': 36,
      patch: 'HTTP 405',
      'one by id': ['r'],
      'ids in a list': ['-dash', 'r', '{guid}'],
      excluded: ['-Dash', '-dash', '{guid}'],
      pages: 5,
      'all pages': 5,
      since: [],
      'since, quoted': [],
      'not modified': [],
      // The client asks for "-dash".
      dash: expect.objectContaining({ data: expect.objectContaining({ id: '-dash' }) }),
      'dash in a list': ['-Dash'],
      collection: 'bookmarks',
      'read-only': 'HTTP 405',
      'wrong token': 'HTTP 401',
      // The record is deleted all the same; the client wants a body.
      delete: 'TypeError',
      deleted: 'HTTP 404',
      'delete with Prefer': true,
      batch: 31,
      'deletion in batch': [null, true],
    })
  })
})

function place({ url }: World, { bucket }: Person): Record<string, string> {
  return { BRIDGE_URL: url, BUCKET: bucket }
}

async function run(args: string[], environment: Record<string, string> = {}) {
  if ('reason' in python) throw new Error(python.reason)
  const child = Bun.spawn([python.path, ...args], {
    env: { PATH: '/usr/bin:/bin', ...environment },
    stdout: 'pipe',
    stderr: 'pipe',
    timeout: 25_000,
  })
  const [output, errors, code] = await Promise.all([textOf(child.stdout), textOf(child.stderr), child.exited])
  if (code !== 0) throw new Error(`${args[0]} ended with ${code}:\n${errors}`)
  return { output, code }
}

/** A Python with the package, installed once into a folder for temporary files. */
async function findPython(): Promise<{ path: string } | { reason: string }> {
  const system = Bun.which('python3')
  if (!system) return { reason: 'there is no python3 in PATH' }
  const folder = join(tmpdir(), `sync-bridge-tests-${kintoHttp.replace('==', '-')}`)
  const path = join(folder, 'bin/python')
  if (existsSync(path)) return { path }
  // Made aside and put in place whole, so that a broken installation is never found by the next run.
  const draft = mkdtempSync(join(tmpdir(), 'sync-bridge-python-'))
  try {
    const options = ['--quiet', '--disable-pip-version-check']
    const steps = [
      [system, '-m', 'venv', draft],
      [join(draft, 'bin/python'), '-m', 'pip', 'install', ...options, kintoHttp],
    ]
    for (const step of steps) {
      const child = Bun.spawn(step, { stdout: 'ignore', stderr: 'pipe', timeout: 60_000 })
      const [errors, code] = await Promise.all([textOf(child.stderr), child.exited])
      if (code !== 0) return { reason: `"${step.slice(1).join(' ')}" failed: ${lastLine(errors)}` }
    }
    renameSync(draft, folder)
    return { path }
  } catch (error) {
    return { reason: String(error) }
  } finally {
    rmSync(draft, { recursive: true, force: true })
  }
}

function textOf(stream: ReadableStream<Uint8Array>): Promise<string> {
  return new Response(stream).text()
}

function lastLine(text: string): string {
  return text.trim().split('\n').at(-1) ?? ''
}
