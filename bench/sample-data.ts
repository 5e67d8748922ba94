import { randomBytes } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { once } from 'node:events'
import { join } from 'node:path'

/** The files of the static upstream, by collection. */
export const listSizes = { list100: 100, list100k: 100_000 } as const

export const recordId = 'r00000000001'

/** Writes records of some 1.5 KB as Firefox encrypts them, as single records and as lists. */
export async function writeSampleData(folder: string): Promise<void> {
  await Bun.write(join(folder, 'record'), bso(1))
  for (const [name, count] of Object.entries(listSizes)) {
    const file = createWriteStream(join(folder, name))
    for (let index = 0; index < count; index += 1) {
      if (!file.write(`${bso(index)}\n`)) await once(file, 'drain')
    }
    file.end()
    await once(file, 'close')
  }
}

function bso(index: number): string {
  const id = `r${String(index).padStart(11, '0')}`
  const modified = (1_763_700_000 + index / 100).toFixed(2)
  const payload = JSON.stringify({
    ciphertext: randomBytes(975).toString('base64'),
    IV: randomBytes(16).toString('base64'),
    hmac: randomBytes(32).toString('hex'),
  })
  return `{"id":"${id}","modified":${modified},"payload":${JSON.stringify(payload)},"sortindex":100}`
}
