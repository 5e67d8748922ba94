import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { run } from './run-command.ts'

/** The signer and the namespace, in the terms of ssh-keygen(1); `install.sh` expects the same. */
const namespace = 'sync-bridge-release'

/** Signs files with an SSH key. */
export interface Signer {
  /** The line with which ssh-keygen verifies its signatures. */
  allowedSigners: string
  /** Writes the signature of a file next to it, as FILE.sig. */
  sign(path: string): Promise<void>
}

/**
 * Runs `use` with the operator's key: the name of a file, or the text of the private key, as in a CI secret. Null without a key. Rejects
 * before `use` runs if the key can't sign.
 */
export async function withSigner<T>(given: string, use: (signer: Signer | null) => Promise<T>): Promise<T> {
  if (given === '') return use(null)
  const folder = mkdtempSync(join(tmpdir(), 'sync-bridge-key-'))
  try {
    const key = given.startsWith('-----BEGIN') ? join(folder, 'key') : given
    if (key !== given) writeFileSync(key, `${given.trim()}\n`, { mode: 0o600 })
    if (!existsSync(key)) throw new Error(`Cannot sign: there is no key "${key}"`)
    const sign = async (path: string) => {
      rmSync(`${path}.sig`, { force: true })
      await run(['ssh-keygen', '-q', '-Y', 'sign', '-f', key, '-n', namespace, path])
      chmodSync(`${path}.sig`, 0o644)
    }
    const [type, blob] = (await run(['ssh-keygen', '-y', '-P', '', '-f', key])).split(' ')
    return await use({
      allowedSigners: `${namespace} namespaces="${namespace}" ${type} ${blob!.trim()}\n`,
      sign,
    })
  } finally {
    rmSync(folder, { recursive: true })
  }
}
