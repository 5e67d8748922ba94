import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { chmodSync, readdirSync, readFileSync, statSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { formatAccount } from '../../src/client/account.ts'
import { readAccountFile } from '../../src/client/account-file.ts'
import { connect } from '../../src/client/sync-client.ts'
import { fillSampleData } from '../../src/sandbox/sample-data.ts'
import { startTestBridge, type TestBridge } from '../support/bridge.ts'
import { endAll, makeFolder } from '../support/executable.ts'
import type { Accounts } from '../firefox/accounts.ts'
import { accountsOf, expiredAccount } from './world.ts'

describe('readAccountFile', () => {
  let bridge: TestBridge
  let accounts: Accounts
  beforeAll(async () => {
    bridge = await startTestBridge()
    fillSampleData(bridge.sandbox, bridge.user, { isEmpty: true })
    accounts = accountsOf(bridge.user)
  })
  afterAll(async () => {
    await Promise.all([bridge.stop(), accounts.stop()])
    endAll()
  })

  it('reads the file of connect, into which a client writes a new token', async () => {
    const own = `# of the user\n${formatAccount(expiredAccount(bridge, accounts))}`
    const file = join(makeFolder({ 'account.env': own }), 'account.env')
    const link = join(makeFolder(), 'link.env')
    symlinkSync(file, link)

    const account = readAccountFile(link)
    await connect(account)

    const kept = readFileSync(file, 'utf8')
    const without = (text: string) => text.replace(/^BEARER_TOKEN=.*$/m, '')
    expect(kept).not.toBe(own)
    expect(without(kept)).toBe(without(own))
    expect(readAccountFile(file).token).not.toBe(account.token!)
    expect(statSync(file).mode & 0o777).toBe(0o600)
    expect(readdirSync(dirname(file))).toEqual(['account.env'])
  })

  it('leaves another account that was written into the file meanwhile', async () => {
    const file = join(
      makeFolder({ 'account.env': formatAccount(expiredAccount(bridge, accounts)) }),
      'account.env',
    )
    const account = readAccountFile(file)
    const other = formatAccount({ ...account, refreshToken: 'other' })
    await Bun.write(file, other)

    await connect(account)

    expect(readFileSync(file, 'utf8')).toBe(other)
  })

  it('works with a file that it can read and not replace', async () => {
    const file = join(
      makeFolder({ 'account.env': formatAccount(expiredAccount(bridge, accounts)) }),
      'account.env',
    )
    const account = readAccountFile(file)
    await Bun.file(file).delete()
    const warned = Promise.withResolvers<Error>()
    process.once('warning', warned.resolve)

    const client = await connect(account)

    expect((await client.collections()).length).toBeGreaterThanOrEqual(0)
    expect((await warned.promise).message).toContain('the next run will need another')
  })

  it('names a file that is missing or unreadable', () => {
    const folder = makeFolder()
    chmodSync(folder, 0o700)

    expect(() => readAccountFile(join(folder, 'none.env'))).toThrow(
      'it does not exist: run "sync-bridge connect"',
    )
    expect(() => readAccountFile(folder)).toThrow('Cannot read the account file')
  })
})
