import { describe, expect, it } from 'bun:test'
import { addressOf, sharedFields } from '../../src/client/addresses.ts'

describe('sharedFields', () => {
  it('has the tags and the keyword of all bookmarks of an address, as Firefox keeps them', () => {
    const written = ['https://a.example', 'HTTPS://A.example:443/', 'https://b.example/', undefined]
    const addresses = written.map((bmkUri) => addressOf({ bmkUri }))
    const [bare, tagged] = [{ tags: ['one'] }, { tags: ['two', 'one', 3], keyword: 'k' }]

    const fields = [sharedFields([bare, tagged, { tags: 'none' }]), sharedFields([bare, { keyword: '' }])]

    expect(addresses).toEqual(['https://a.example/', 'https://a.example/', 'https://b.example/', ''])
    expect(fields).toEqual([{ tags: ['one', 'two'], keyword: 'k' }, { tags: ['one'] }])
  })
})
