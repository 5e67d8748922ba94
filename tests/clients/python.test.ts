import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'bun:test'
import { runToEnd } from '../support/processes.ts'
import { clientNeeds, findPython, kintoHttp, olderKintoHttp, olderKintoHttpNeeds } from './python.ts'
import { startWorld, type Person, type World } from './world.ts'

const example = join(import.meta.dir, '../../docs/examples/python/first_steps.py')
const calls = join(import.meta.dir, 'python_calls.py')
const scenes = join(import.meta.dir, 'python_scenes.py')

const pythons = [
  { requirement: kintoHttp, python: await findPython(...clientNeeds) },
  { requirement: olderKintoHttp, python: await findPython(olderKintoHttp, olderKintoHttpNeeds) },
]

describe.each(pythons)('Python $requirement', ({ requirement, python }) => {
  const isOlder = requirement === olderKintoHttp
  // Without Python or the package, the test name says why it is skipped.
  const why = 'reason' in python ? ` (NOT RUN: ${python.reason})` : ''
  const itWithPython = it.skipIf('reason' in python)
  const run = (args: string[], environment?: Record<string, string>) => runPython(python, args, environment)

  let world: World
  if (!('reason' in python)) {
    beforeAll(async () => {
      world = await startWorld({ settings: { project_name: 'Bridge under test' } })
    })
    afterAll(() => world.stop())
  }

  // The example is for the current client.
  if (!isOlder) {
    itWithPython(`runs the first steps of the documentation with an access token${why}`, async () => {
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

    itWithPython(`runs them with an assertion${why}`, async () => {
      const person = world.person()

      const { output, code } = await run([example, 'tabs'], {
        ...place(world, person),
        ASSERTION: person.user.assertion(),
      })

      expect(output).toBe('Bridge under test has 0 records in tabs\nas of 0\n')
      expect(code).toBe(0)
    })
  }

  itWithPython(
    `gets from every call what it expects, or what the documentation warns about${why}`,
    async () => {
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
        // The client uses "-dash".
        dash: expect.objectContaining({ data: expect.objectContaining({ id: '-dash' }) }),
        'dash in a list': ['-Dash'],
        collection: 'bookmarks',
        'read-only': 'HTTP 405',
        'wrong token': isOlder ? 'TypeError' : 'HTTP 401',
        // The record is deleted anyway; the client expects a body.
        delete: 'TypeError',
        deleted: 'HTTP 404',
        'delete with Prefer': true,
        batch: 31,
        'deletion in batch': [null, true],
      })
    },
  )

  describe('and a storage that fails or sends notices', () => {
    let world: World
    if (!('reason' in python)) {
      beforeAll(async () => {
        world = await startWorld({ settings: { retry_after_seconds: '1' } })
      })
      afterEach(() => world.storage.plan(() => null))
      afterAll(() => world.stop())
    }

    async function play(scene: string, { bucket, user }: Person): Promise<unknown> {
      const identity = [bucket, user.bearerToken(), user.keyId]
      const { output } = await run([scenes, scene, `${world.url}/v1`, ...identity])
      return JSON.parse(output)
    }

    function someone(...ids: string[]): Person {
      const person = world.person()
      for (const id of ids) person.firefox.write(id, id)
      return person
    }

    itWithPython(`retries once, after the pause of Retry-After${why}`, async () => {
      const person = someone('a')
      const isAnswered = () => world.lines.some((line) => line.includes('"status":503'))
      world.storage.plan(() => (isAnswered() ? null : { kind: 'status', status: 503, body: '0' }))

      expect(await play('retry', person)).toEqual({ ids: ['a'], waited: true })
    })

    itWithPython(`respects the pause of Backoff${why}`, async () => {
      const person = someone('a')
      world.storage.plan(() => ({ kind: 'rewrite', headers: { 'X-Weave-Backoff': '3600' } }))

      const outcome = await play('pause', person)

      expect(outcome).toEqual({ first: ['a'], backoff: expect.any(Number) })
      expect((outcome as { backoff: number }).backoff).toBeWithin(3000, 3601)
    })

    itWithPython(`warns about what an Alert announces${why}`, async () => {
      world.storage.plan(() => ({
        kind: 'rewrite',
        headers: { 'X-Weave-Alert': 'This node moves on Sunday' },
      }))

      expect(await play('announcement', someone())).toEqual([
        ['DeprecationWarning', { code: 'soft-eol', message: 'This node moves on Sunday' }],
      ])
    })
  })
})

function place({ url }: World, { bucket }: Person): Record<string, string> {
  return { BRIDGE_URL: url, BUCKET: bucket }
}

async function runPython(
  python: Awaited<ReturnType<typeof findPython>>,
  args: string[],
  environment: Record<string, string> = {},
) {
  if ('reason' in python) throw new Error(python.reason)
  const { output, errors, code } = await runToEnd([python.path, ...args], { environment })
  if (code !== 0) throw new Error(`${args[0]} ended with ${code}:\n${errors}`)
  return { output, code }
}
