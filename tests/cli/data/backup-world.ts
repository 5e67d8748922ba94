import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fillSampleData } from '../../../src/sandbox/sample-data.ts'
import { accountOf, encrypted } from '../../support/records.ts'
import { startTestBridge } from '../../support/bridge.ts'
import { endAll, makeFolder } from '../../support/executable.ts'
import { accountFile, runHere } from './world.ts'
import type { SandboxUser } from '../../../src/sandbox/sandbox-user.ts'

/** A bridge, and what tests of `backup` and `restore` do with it. A server, because an account file names it by its address. */
export async function startBackupWorld() {
  const bridge = await startTestBridge({ writable: ['bookmarks', 'passwords', 'forms'] })
  const { sandbox } = bridge
  /** What `undo` needs. */
  const state = makeFolder()

  /** A user with a little data, and a folder for backups. */
  function someone(name: string) {
    const user = sandbox.addUser(name)
    fillSampleData(sandbox, user, { bookmarks: 20, history: 3 })
    return { user, folder: makeFolder() }
  }

  /** The account file of a user, with its bridge. */
  function fileOf(user: SandboxUser, more: Record<string, string> = {}): string {
    return accountFile({ ...accountOf(user), BRIDGE_URL: bridge.url, ...more })
  }

  /** Runs a command for a user; `more` overrides lines of the account file. Leaves out the line that names the bridge. */
  async function run(user: SandboxUser, command: string[], more: Record<string, string> = {}) {
    const environment = { SYNC_BRIDGE_ACCOUNT: fileOf(user, more), XDG_STATE_HOME: state }
    const { output, errors, code } = await runHere(command, environment)
    return { output, said: errors.replace(/^Bridge: .*\n/, ''), code }
  }

  /** Writes form entries, whose ids are their names. */
  async function writeForms(user: SandboxUser, ids: string[]) {
    const records = ids.map((id) => encrypted(sandbox, user, 'forms', { id, name: id, value: id }))
    sandbox.write(user, 'forms', await Promise.all(records))
  }

  /** Deletes form entries as Firefox does. */
  async function deleteForms(user: SandboxUser, ids: string[]) {
    const records = ids.map((id) => encrypted(sandbox, user, 'forms', { id, deleted: true }))
    sandbox.write(user, 'forms', await Promise.all(records))
  }

  /** The storage's contents: payloads by path. */
  function stored(user: SandboxUser): Record<string, string> {
    const names = ['bookmarks', 'clients', 'crypto', 'forms', 'history', 'meta', 'passwords', 'prefs', 'tabs']
    return Object.fromEntries(
      names.flatMap((name) =>
        sandbox.records(user, name).map(({ id, payload }) => [`${name}/${id}`, payload]),
      ),
    )
  }

  async function stop() {
    await bridge.stop()
    endAll()
  }

  return { bridge, sandbox, state, someone, fileOf, run, writeForms, deleteForms, stored, stop }
}

export const codeOf = ({ code }: { code: number }) => code

/** The backups in a folder, oldest first, each as its records' payloads by path. */
export function backupsIn(folder: string): Record<string, string>[] {
  const contentOf = (name: string) => {
    const files = readdirSync(join(folder, name)).filter((file) => file.endsWith('.jsonl'))
    return files.flatMap((file) => {
      const lines = readFileSync(join(folder, name, file), 'utf8')
        .split('\n')
        .filter(Boolean)
      const records = lines.map((line) => JSON.parse(line) as { id: string; payload: string })
      return records.map(({ id, payload }) => [`${file.replace('.jsonl', '')}/${id}`, payload])
    })
  }
  return readdirSync(folder)
    .toSorted()
    .map((name) => Object.fromEntries(contentOf(name)))
}

/** Changes one character in the middle of a file. */
export function flipIn(file: string) {
  const text = readFileSync(file, 'utf8')
  const at = text.indexOf('ciphertext') + 40
  writeFileSync(file, text.slice(0, at) + (text[at] === 'A' ? 'B' : 'A') + text.slice(at + 1))
}

/** That many ids. */
export const idsOf = (count: number) => Array.from({ length: count }, (_, index) => `made${index}`)
