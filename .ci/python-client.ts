/** `bun .ci/python-client.ts FOLDER` builds the wheel of `clients/python` into a folder: from the same commit the same bytes. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { run } from './run-command.ts'

const project = join(import.meta.dir, '..')
const source = join(project, 'clients/python')
const output = resolve(process.argv[2] ?? join(project, 'dist'))

const printed = await run(['git', '-C', project, 'log', '-1', '--format=%ct']).catch(() => '0')
const environment = { SOURCE_DATE_EPOCH: process.env.SOURCE_DATE_EPOCH ?? printed.trim() }
const folder = mkdtempSync(join(tmpdir(), 'sync-bridge-wheel-'))
try {
  await run(['python3', '-m', 'venv', folder])
  const pip = [join(folder, 'bin/python'), '-m', 'pip', '--quiet', '--disable-pip-version-check']
  await run([...pip, 'install', '--constraint', join(source, 'constraints.txt'), 'hatchling'])
  const options = ['--no-deps', '--no-build-isolation', '--wheel-dir', output]
  await run([...pip, 'wheel', ...options, source], { environment })
} finally {
  rmSync(folder, { recursive: true, force: true })
}
