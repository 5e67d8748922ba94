import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'bun:test'
import KintoClient from 'kinto-http/lib/index.js'
import { kintoVersions } from './offline.ts'
import { startWorld, type Person, type World } from './world.ts'

// A list without a limit is one answer, made of as many pages as the storage makes of it. Once it changes, the pages
// don't belong together any more: the answer is cut, so that nobody takes it for a whole one.
describe('a storage that pages unasked, and changes between two of its pages', () => {
  let world: World
  beforeAll(async () => {
    world = await startWorld({ sandbox: { listCap: 3 } })
  })
  beforeEach(() => world.storage.plan(() => null))
  afterAll(() => world.stop())

  it('shows kinto-http an error and then, asked again, all of it', async () => {
    const person = someoneWithEight(world)
    const client = new KintoClient(`${world.url}/v1`, { headers: person.headers })
    const bookmarks = client.bucket(person.bucket).collection('bookmarks')

    changeBetweenPages(world, person)
    await expect(bookmarks.listRecords()).rejects.toThrow()
    world.storage.plan(() => null)
    const { data } = await bookmarks.listRecords()

    expect(data.map(({ id }) => id)).toEqual([...'ahgfedcb'])
  })

  it.each(kintoVersions)(
    'leaves %s with what it had, and brings all of it with the next sync',
    async (version) => {
      const person = someoneWithEight(world)
      const phone = person.device({ version })

      changeBetweenPages(world, person)
      await expect(phone.sync()).rejects.toThrow()
      world.storage.plan(() => null)
      const meanwhile = await phone.titles()
      const result = await phone.sync()

      expect(meanwhile).toEqual({})
      expect(result.ok).toBe(true)
      expect(await phone.titles()).toEqual(person.firefox.titles())
      expect(await phone.titles()).toMatchObject({ a: 'Changed', h: 'Title of h' })
    },
  )
})

function someoneWithEight(world: World): Person {
  const person = world.person()
  for (const id of 'abcdefgh') person.firefox.write(id, `Title of ${id}`)
  return person
}

/** The record that a list shows last is written after each first page, because a client's runtime may ask again by itself. */
function changeBetweenPages({ storage }: World, { firefox }: Person): void {
  storage.plan(({ query }) => {
    if (query.has('offset')) firefox.write('a', 'Changed')
    return null
  })
}
