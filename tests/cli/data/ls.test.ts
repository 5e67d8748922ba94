import { afterAll, describe, expect, it } from 'bun:test'
import { upload } from '../../client/world.ts'
import { foreign } from '../../support/records.ts'
import { eventually } from '../../support/eventually.ts'
import { executablePath, start } from '../../support/executable.ts'
import { runToEnd } from '../../support/processes.ts'
import { startPeople } from './people.ts'
import { runAlone, runWith } from './world.ts'

const { sandbox, someone, write, stop } = await startPeople()
afterAll(stop)

describe('ls', () => {
  it('lists collections, and records without passwords or keys', async () => {
    const { user, account } = someone('lister')
    await write(user, { id: 'gonebookmark', deleted: true })
    const entry = { 'cc-name': 'Ada', 'cc-number': '4111111111111111' }
    await upload({ sandbox, user }, 'creditcards', { id: 'card', entry })

    const all = await runWith(account, ['ls'])
    const cards = await runWith(account, ['ls', 'creditcards'])
    const json = await runWith(account, ['ls', '--json'])
    const passwords = await runWith(account, ['ls', 'passwords'])
    const keys = await runWith(account, ['ls', 'crypto', '--json'])
    const deleted = await runWith(account, ['ls', 'bookmarks', '--deleted', '--json'])
    const rows = await runWith(account, ['ls', 'bookmarks', '--deleted'])

    expect(all.output).toMatch(
      /^COLLECTION +RECORDS +LAST CHANGE +WHAT\nbookmarks +21 +\d{4}-\d\d-\d\d \d\d:\d\d +\d+ bookmarks, .*1 deletion\n/,
    )
    const lines = json.output.trimEnd().split('\n')
    expect(lines.map((line) => JSON.parse(line))[0]).toEqual({
      name: 'bookmarks',
      records: 21,
      last_modified: expect.any(Number),
    })
    expect(passwords.output).toContain('https://library.example.org')
    expect(passwords.output).not.toContain('not-a-secret')
    expect(cards.output).toMatch(/^ID .*\ncard .* Ada\n$/)
    expect([keys.output, keys.code]).toEqual(['', 1])
    expect(JSON.parse(deleted.output)).toMatchObject({ id: 'gonebookmark', deleted: true })
    expect(rows.output).toMatch(/^gonebookmark +[\d:-]+ [\d:-]+  \(deleted\)$/m)
  })

  it('says what each collection contains, and which ones Firefox syncs', async () => {
    const { account } = someone('curious')

    const all = await runWith(account, ['ls'])
    const meta = await runWith(account, ['ls', 'meta'])

    for (const row of [
      /^clients .* devices$/m,
      /^meta .* which collections Firefox syncs$/m,
      /^crypto .* keys$/m,
    ])
      expect(all.output).toMatch(row)
    expect(meta.output).toMatch(/^global .*  bookmarks, clients, .*tabs; not addons/m)
  })

  it('says that there are no records or no deletions, instead of a table without rows', async () => {
    const { account } = someone('idle')

    const deleted = await runWith(account, ['ls', 'passwords', '--deleted'])
    const empty = await runWith(account, ['ls', 'addons'])

    expect(deleted).toMatchObject({ output: '', code: 0, errors: expect.stringMatching(/^No deletions$/m) })
    expect(empty).toMatchObject({ output: '', code: 0, errors: expect.stringMatching(/^No records$/m) })
  })

  it('says when something was changed in the time of this place, as `undo --list` does', async () => {
    const { account } = someone('traveller')
    const json = await runWith(account, ['ls', '--json'])

    const { output } = await runAlone(account, ['ls'], { TZ: 'Asia/Kolkata' })
    const addedAtMs = Date.now()
    await runWith(account, ['add', 'https://now.example/'])
    const list = await runAlone(account, ['undo', '--list'], { TZ: 'Asia/Kolkata' })

    const { last_modified } = JSON.parse(json.output.split('\n')[0]!) as { last_modified: number }
    const timeThere = (ms: number) =>
      new Date(ms + 5.5 * 3_600_000).toISOString().slice(0, 16).replace('T', ' ')
    expect(output).toContain(`  ${timeThere(last_modified)}  `)
    expect([timeThere(addedAtMs), timeThere(Date.now())]).toContain(list.output.slice(6, 22))
  })

  it('suggests a name if the collection does not exist', async () => {
    const { account } = someone('misspeller')

    const shouted = await runWith(account, ['ls', 'BOOKMARKS'])
    const listed = await runWith(account, ['ls', 'bookmark'])
    const empty = await runWith(account, ['ls', 'addons', '--json'])
    await using watching = start(['watch', 'histroy'], { environment: { SYNC_BRIDGE_ACCOUNT: account } })

    expect(shouted).toMatchObject({ code: 0, output: expect.stringContaining('Bookmarks Menu') })
    expect(listed).toMatchObject({ code: 1, output: '' })
    expect(listed.errors).toContain('has no collection "bookmark": did you mean bookmarks?')
    expect(empty).toMatchObject({ code: 0, output: '' })
    await eventually('the watch warns', () =>
      watching.errors().includes('warning: The account has no collection "histroy": did you mean history?'),
    )
  })

  it('removes control characters from titles on a terminal', async () => {
    const { user, account } = someone('controlled')
    const title = 'red \u001b[31m bell \u0007 \u009b2J \u202e end\nnext'
    await write(user, { id: 'controlchars', type: 'bookmark', title, bmkUri: 'https://c.example/' })

    const { output } = await runWith(account, ['ls', 'bookmarks'])

    expect(output).toContain('red  [31m bell    2J   end next <https://c.example/>')
  })

  it('names what cannot be decrypted, and exits 3', async () => {
    const { user, account } = someone('partly')
    sandbox.write(user, 'forms', [{ id: 'foreign', payload: foreign }])

    const { output, errors, code } = await runWith(account, ['ls', 'forms'])

    expect(output).toMatch(/^foreign .*\(It was encrypted with another key, or tampered with\)$/m)
    expect([errors, code]).toEqual(['1 of these cannot be decrypted\n', 3])
  })

  it('ends silently when its reader closes', async () => {
    const { account } = someone('leaver')
    const command = `"${executablePath}" ls history --json | head -n 1; echo "\${PIPESTATUS[0]}"`

    const { output, errors } = await runToEnd(['/bin/bash', '-c', command], {
      environment: { SYNC_BRIDGE_ACCOUNT: account },
    })

    expect([output.trimEnd().split('\n').at(-1), errors]).toEqual(['0', ''])
  })
})
