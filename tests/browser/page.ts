/** What an application does in its page with the official client. Bundled for the browser, and called by the tests. */
import KintoClient from 'kinto-http'

/** Where the application's data is, and the credentials for it. */
export interface Home {
  /** With the version. */
  remote: string
  bucket: string
  headers: Record<string, string>
}

type Item = { id: string; payload: string; last_modified?: number }

/** Functions that the tests call, by name. Results are passed as JSON. */
export const calls = {
  /** A plain fetch: the part of the response that the page may read. Rejects if the browser blocks it. */
  async fetch({ url, init }: { url: string; init?: RequestInit }) {
    const response = await fetch(url, init)
    const text = await response.text()
    const body: unknown = text === '' ? null : JSON.parse(text)
    return { status: response.status, headers: Object.fromEntries(response.headers), body }
  },

  /** Every method of kinto-http for records, once. */
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
