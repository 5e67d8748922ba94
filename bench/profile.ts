/**
 * Where a request spends its instructions: the bridge beside its peers. It can be looked at while the machine does other
 * things. Needs perf. `run.ts` measures everything.
 *
 * Usage: bun bench/profile.ts [path of the executable]
 */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { loadScript } from './load.ts'
import { measureProfiles } from './measurements/profile.ts'
import { stopAll } from './processes.ts'
import { profileTable } from './report.ts'
import { writeSampleData } from './sample-data.ts'

const folder = mkdtempSync(join(tmpdir(), 'sync-bridge-profile-'))
// The workers of nginx are somebody else.
chmodSync(folder, 0o755)

try {
  const script = join(folder, 'load.lua')
  writeFileSync(script, loadScript)
  await writeSampleData(folder)
  const executable = resolve(process.argv[2] ?? 'dist/sync-bridge')
  console.log(profileTable(await measureProfiles(executable, folder, script)))
} finally {
  await stopAll()
  rmSync(folder, { recursive: true })
}
process.exit()
