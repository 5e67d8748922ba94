/**
 * Prints the peak memory of a person's commands. Usage: bun bench/own-data.ts [path of the executable] [records]. A part of `make bench`, and by
 * itself.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { measureOwnData } from './measurements/own-data.ts'
import { stopAll } from './processes.ts'

const [executable = 'dist/sync-bridge', records = '300000'] = process.argv.slice(2)
const folder = mkdtempSync(join(tmpdir(), 'sync-bridge-bench-'))
try {
  const { commands } = await measureOwnData(resolve(executable), folder, Number(records))
  for (const { name, peakMegabytes, seconds } of commands)
    process.stdout.write(`${name}: ${peakMegabytes.toFixed(0)} MB, ${seconds.toFixed(1)} s\n`)
} finally {
  await stopAll()
  rmSync(folder, { recursive: true })
}
process.exit()
