import { afterAll, describe, expect, it } from 'bun:test'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fillSampleData } from '../../../src/sandbox/sample-data.ts'
import { upload } from '../../client/world.ts'
import { linesOf } from '../../support/records.ts'
import { startTestBridge } from '../../support/bridge.ts'
import { eventually } from '../../support/eventually.ts'
import { executablePath, makeFolder, start } from '../../support/executable.ts'
import { startPeople } from './people.ts'
import { hasAnswered, runWith, valuesOf } from './world.ts'

const { sandbox, someone, write, stop } = await startPeople()
afterAll(stop)

function commandLine(pid: string): string {
  return existsSync(`/proc/${pid}`) ? readFileSync(`/proc/${pid}/cmdline`, 'utf8') : ''
}

// The executable, because signals, children and standard output belong to a process.
describe('watch', () => {
  it('prints a line for each change from now on, and requests only changes', async () => {
    const { user, account } = someone('watched')
    await using watching = start(['watch', '--every', '1'], { environment: { SYNC_BRIDGE_ACCOUNT: account } })
    const { entries } = sandbox.requests.storage
    const before = entries.length
    await eventually('its first round is over', () => hasAnswered(sandbox, before))
    for (const name of ['passwords', 'creditcards']) await upload({ sandbox, user }, name, { id: 'p' })
    await write(user, { id: 'newbookmarkk', type: 'bookmark', title: 'T', bmkUri: 'https://t.example/' })

    await watching.line(/"newbookmarkk"/)
    // In the next round, because the first one reads collections in order.
    await upload({ sandbox, user }, 'tabs', { id: 'later' })
    await watching.line(/"later"/)
    const code = await watching.stop()

    const requests = entries.slice(before).map(({ target }) => {
      const { pathname, searchParams } = new URL(target, 'http://storage')
      const isOfChanges = Number(searchParams.get('newer')) > 0
      return pathname.replace(/.*\/\d+\//, '') + (isOfChanges ? ', newer' : '')
    })
    expect(new Set(requests)).toEqual(
      new Set(['info/collections', 'storage/bookmarks, newer', 'storage/tabs, newer', 'storage/crypto/keys']),
    )
    expect(JSON.parse(watching.lines[0]!)).toMatchObject({
      collection: 'bookmarks',
      id: 'newbookmarkk',
      content: { bmkUri: 'https://t.example/' },
    })
    expect([watching.lines.length, code]).toEqual([2, 0])
  })

  it('goes on without its terminal under nohup', async () => {
    const { user, account } = someone('hung up')
    const { entries } = sandbox.requests.storage
    const before = entries.length
    await using watching = start(['-c', `trap '' HUP; exec '${executablePath}' watch --every 1`], {
      executable: '/bin/sh',
      environment: { SYNC_BRIDGE_ACCOUNT: account },
    })
    await eventually('its first round is over', () => hasAnswered(sandbox, before))

    watching.signal('SIGHUP')
    await write(user, { id: 'afterhangup1', type: 'bookmark', title: 'T', bmkUri: 'https://t.example/' })

    await watching.line(/"afterhangup1"/)
    expect(await watching.stop()).toBe(0)
  })

  it('pauses for as long as the bridge asks, and reports that', async () => {
    const { account } = someone('patient')
    await using bridge = await startTestBridge({ settings: { backoff: '3600' } })
    const values = valuesOf(bridge.sandbox, bridge.user)
    fillSampleData(bridge.sandbox, bridge.user, { bookmarks: 1, history: 1 })
    writeFileSync(account, linesOf({ ...values, BRIDGE_URL: bridge.url }))
    await using watching = start(['watch', '--every', '1'], { environment: { SYNC_BRIDGE_ACCOUNT: account } })

    await eventually('it pauses', () => /asks for a pause: continuing in 3600 s\n/.test(watching.errors()))

    expect(await watching.stop()).toBe(0)
  })

  it('prints the changes since a time, and runs a command for each', async () => {
    const { user, account } = someone('since')
    const file = join(makeFolder(), 'lines')
    await write(user, { id: 'deletedthing', deleted: true })
    const command = ['watch', 'bookmarks', '--since', '2020-01-01', '--exec', `cat >> '${file}'`]
    await using watching = start(command, { environment: { SYNC_BRIDGE_ACCOUNT: account } })

    const linesSoFar = () => (existsSync(file) ? readFileSync(file, 'utf8').split('\n').slice(0, -1) : [])
    await eventually('the command has got a deletion and 20 bookmarks', () => linesSoFar().length >= 21)
    const open = readdirSync(`/proc/${watching.pid}/fd`).length
    const code = await watching.stop()

    const lines = linesSoFar()
    expect(lines.join()).toContain('deletedthing')
    expect(lines.map((line) => JSON.parse(line) as { collection: string })).toSatisfy((all) =>
      all.every(({ collection }) => collection === 'bookmarks'),
    )
    expect([lines.length, watching.lines.length, code]).toEqual([21, 0, 0])
    // One that stays open for each run would soon be too many.
    expect(open).toBeLessThan(25)
  })

  it('ends the running command with its children, and skips the remaining changes', async () => {
    const { account } = someone('stopping')
    // It prints the id of its child, which then runs.
    const script = 'sleep 1000 & echo "run $!"; wait; echo end'
    const command = ['watch', 'bookmarks', '--since', '2020-01-01', '--exec', script]
    await using watching = start(command, { environment: { SYNC_BRIDGE_ACCOUNT: account } })
    const [, child = ''] = await watching.line(/^run (\d+)$/)

    watching.signal('SIGINT')
    const code = await watching.exited

    // A process that has ended may stay in the table for a moment, without a command line.
    await eventually('the child ends', () => commandLine(child) === '')
    expect([watching.lines, code]).toEqual([[`run ${child}`], 0])
  })

  it('does not print the keys of the account', async () => {
    const { account } = someone('key watcher')

    const { output, errors, code } = await runWith(account, ['watch', 'crypto', '--since', '2020-01-01'])

    expect([output, errors, code]).toEqual([
      '',
      'sync-bridge: "crypto" contains the keys of the account, which are not shown\n',
      1,
    ])
  })
})
