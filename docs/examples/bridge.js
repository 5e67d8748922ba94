/**
 * A bucket of Sync Bridge, read with nothing but fetch. The environment names it as `sync-bridge sandbox` prints it:
 * BRIDGE_URL, BUCKET, BEARER_TOKEN, KEY_ID.
 */

/** Asks for a path below the bucket; follows Next-Page to the end of a list. Answers the records and the last ETag. */
export async function list({ BRIDGE_URL, BUCKET, BEARER_TOKEN, KEY_ID }, path) {
  const headers = { Authorization: `Bearer ${BEARER_TOKEN}`, 'X-KeyID': KEY_ID }
  const found = []
  let etag = null
  for (let url = `${BRIDGE_URL}/v1/buckets/${BUCKET}${path}`; url !== null;) {
    const answer = await fetch(url, { headers })
    const body = await answer.json()
    if (!answer.ok) throw new Error(`Cannot read ${path}: ${body.message}`)
    found.push(...(Array.isArray(body.data) ? body.data : [body.data]))
    etag = answer.headers.get('ETag')
    url = answer.headers.get('Next-Page')
  }
  return { records: found, etag }
}
