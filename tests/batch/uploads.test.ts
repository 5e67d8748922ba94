import { describe, expect, it } from 'bun:test'
import { fitsOneBatch, splitIntoUploads } from '../../src/batch/collection-changes.ts'
import { writeBsos } from '../../src/upstream/bso.ts'
import { generousLimits } from '../support/model-storage.ts'

const batch = { maxTotalBytes: 1000, maxTotalRecords: 3 }
const ofBytes = (...sizes: number[]) =>
  sizes.map((size, index) => ({ id: `id${index}`, payload: 'x'.repeat(size) }))

describe('fitsOneBatch', () => {
  it.each([
    [[400, 600], true],
    [[400, 601], false],
    [[1, 1, 1], true],
    [[1, 1, 1, 1], false],
  ])('says of payloads of %j bytes: %p', (sizes, expected) => {
    expect(fitsOneBatch(ofBytes(...sizes), { ...generousLimits, batch })).toBe(expected)
  })

  it('counts bytes and not characters', () => {
    const fits = (payload: string) => fitsOneBatch([{ id: 'a', payload }], { ...generousLimits, batch })
    expect([fits('ü'.repeat(500)), fits(`${'ü'.repeat(500)}x`)]).toEqual([true, false])
  })
})

describe('splitIntoUploads', () => {
  const countOf = (records: ReturnType<typeof ofBytes>, limits: Partial<typeof generousLimits>) =>
    splitIntoUploads(records, { ...generousLimits, ...limits }).length

  it('fills uploads up to the payload bytes and the records that the storage accepts', () => {
    const records = ofBytes(400, 600)
    expect(countOf(records, { maxPostBytes: 1000 })).toBe(1)
    expect(countOf(records, { maxPostBytes: 999 })).toBe(2)
    expect(countOf(ofBytes(1, 1, 1, 1), { maxPostRecords: 4 })).toBe(1)
    expect(countOf(ofBytes(1, 1, 1, 1), { maxPostRecords: 3 })).toBe(2)
  })

  it('fills uploads up to the bytes of a request, brackets and commas included', () => {
    const records = ofBytes(400, 600)
    const all = Buffer.byteLength(writeBsos(records))
    for (let most = all - 10; most <= all + 10; most += 1) {
      const uploads = splitIntoUploads(records, { ...generousLimits, maxRequestBytes: most })
      for (const upload of uploads) expect(Buffer.byteLength(writeBsos(upload))).toBeLessThanOrEqual(most)
      // Counts at most three bytes too many.
      expect([most, uploads.length]).toEqual([most, most >= all + 3 ? 1 : 2])
    }
  })

  it('counts anew for each upload: 25 records of 10 KB are two of 200 KB', () => {
    const records = ofBytes(...Array<number>(25).fill(10_000))
    const uploads = splitIntoUploads(records, { ...generousLimits, maxPostBytes: 200_000 })
    expect(uploads.map(({ length }) => length)).toEqual([20, 5])
  })
})
