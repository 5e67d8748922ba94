/** What an application does in its page with the official client. Bundled for the browser; the tests call it there. */
import KintoClient from 'kinto-http'

/** Where the application's data is, and how it is allowed in. */
export interface Home {
  /** With the version. */
  remote: string
  bucket: string
  headers: Record<string, string>
}

type Item = { id: string; payload: string; last_modified?: number }

/** Calls that the tests make, by name. What they return travels as JSON. */
export const calls = {
  /** A plain fetch: all of the answer that the page may read. Rejects where the browser lets it read nothing. */
  async fetch({ url, init }: { url: string; init?: RequestInit }) {
    const response = await fetch(url, init)
    const text = await response.text()
    const body: unknown = text === '' ? null : JSON.parse(text)
    return { status: response.status, headers: Object.fromEntries(response.headers), body }
  },

  /** Everything that kinto-http has for records, once. */
  async useRecords(home: Home) {
    const client = new KintoClient(home.remote, home)
    const collection = client.bucket(home.bucket).collection('bookmarks')
    const paged = await collection.listRecords({ limit: 10, pages: Infinity })
    const created = await collection.createRecord({ id: 'made', payload: '1' }, { safe: true })
    const updated = await collection.updateRecord(
      { ...(created as { data: Item }).data, payload: '2' },
      { safe: true },
    )
    const total = await collection.getTotalRecords()
    const timestamp = await collection.getRecordsTimestamp()
    const outcomes = await client.bucket(home.bucket).batch((batch) => {
      const inBatch = batch.collection('bookmarks')
      void inBatch.deleteRecord('made')
      void inBatch.createRecord({ id: 'batched', payload: '3' })
    })
    return {
      ids: paged.data.map(({ id }) => id),
      lastModified: paged.last_modified,
      updated: (updated as unknown as { data: Item }).data,
      total,
      timestamp,
      batched: (outcomes as { status: number }[]).map(({ status }) => status),
    }
  },
}

Object.assign(globalThis, { calls })
