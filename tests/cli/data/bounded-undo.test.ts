import { afterAll, describe, expect, it } from 'bun:test'
import { readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { accountOf } from '../../support/records.ts'
import { replaceKeys, upload } from '../../client/world.ts'
import { startTestBridge } from '../../support/bridge.ts'
import { endAll } from '../../support/executable.ts'
import { eventually } from '../../support/eventually.ts'
import { hasNoTerminals } from '../../support/machine.ts'
import { startOnTerminal } from '../../support/terminal.ts'
import { accountFile } from './world.ts'

const bridge = await startTestBridge({ writable: ['passwords'] })
afterAll(async () => {
  await bridge.stop()
  endAll()
})

/** A user with two logins. */
async function someone() {
  const { sandbox } = bridge
  const user = sandbox.addUser(`bounded ${crypto.randomUUID()}`)
  const world = { sandbox, user }
  await replaceKeys(world)
  const login = { hostname: 'https://x.example', username: 'u', password: 'p' }
  await upload(world, 'passwords', { id: '{1}', ...login }, { id: '{2}', ...login })
  const before = sandbox.records(user, 'passwords').map(({ payload }) => payload)
  const account = accountFile({ ...accountOf(user), BRIDGE_URL: bridge.url })
  const environment = {
    SYNC_BRIDGE_ACCOUNT: account,
    XDG_STATE_HOME: dirname(account),
    PATH: process.env.PATH!,
  }
  return {
    command: (bytes: number, mode: string) => [
      process.execPath,
      join(import.meta.dir, 'bounded-undo.ts'),
      bridge.url,
      String(bytes),
      mode,
    ],
    environment,
    /** How many logins are as they were. */
    left: () => sandbox.records(user, 'passwords').filter(({ payload }) => before.includes(payload)).length,
    saved: () =>
      readdirSync(dirname(account), { recursive: true }).filter((name) => /\d+\.json$/.test(String(name)))
        .length,
  }
}

/** What undoes one deletion takes 1100 bytes, about. */
const [none, one] = [100, 1600]
const question =
  /What this changes is too large to be saved \(1 MB\): it cannot be undone. Change it anyway\? \[y\/N\] /

// A program with a lower limit, because whether a command asks depends on the terminal of its process.
describe('what is too large to be saved', () => {
  it.each([
    ['save', none, 'Nothing was written', 2, 0],
    ['parts', one, 'passwords is not written', 1, 1],
  ])('is not changed without a terminal (%s)', async (mode, bytes, effect, left, saved) => {
    const who = await someone()

    // In a session of its own, which has no terminal.
    const child = Bun.spawn(who.command(bytes, mode), {
      env: who.environment,
      stdio: ['ignore', 'ignore', 'pipe'],
      detached: true,
    })
    const errors = await new Response(child.stderr).text()

    expect(errors).toEndWith(
      `${effect}: there is no terminal to ask. What this changes is too large to be saved (1 MB): it cannot be undone. Use --no-undo to change it without a way back\n`,
    )
    expect([await child.exited, who.left(), who.saved()]).toEqual([1, left, saved])
  })

  it.skipIf(hasNoTerminals).each([
    ['save', none, 'y', 0, 0, 0],
    ['save', none, 'n', 1, 2, 0],
    ['parts', one, 'y', 0, 0, 1],
    ['parts', one, '', 1, 1, 1],
  ])(
    'is changed only if the user agrees (%s with %d bytes, %j)',
    async (mode, bytes, answer, code, left, saved) => {
      const who = await someone()
      const terminal = startOnTerminal(who.command(bytes, mode), { env: who.environment })

      await eventually('the question', () => question.test(terminal.shown()))
      terminal.type(`${answer}\r`)

      expect([await terminal.child.exited, who.left(), who.saved()]).toEqual([code, left, saved])
      await terminal.closed
      const toUndo = /To take .* back: .*/.exec(terminal.shown())?.[0] ?? ''
      expect(toUndo.trim()).toBe(
        saved === 0
          ? ''
          : code === 0
            ? 'To take the part of this that was saved back: sync-bridge undo 1 --write'
            : 'To take this back: sync-bridge undo 1 --write',
      )
    },
  )
})
