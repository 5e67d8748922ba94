/**
 * `bun .ci/python-client.ts FOLDER [PYTHON]` builds the wheel of `clients/python` into a folder, with the same bytes for the same commit.
 * PYTHON has hatchling; without it, a temporary environment is created.
 */
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
  const python = process.argv[3] ?? (await pythonWithHatchling())
  const command = [python, '-m', 'hatchling', 'build', '--target', 'wheel', '--directory', output]
  await run(command, { cwd: source, environment })
} finally {
  rmSync(folder, { recursive: true, force: true })
}

async function pythonWithHatchling(): Promise<string> {
  const python = join(folder, 'bin/python')
  const canMakeEnvironments = await run(['python3', '-c', 'import ensurepip']).then(
    () => true,
    () => false,
  )
  if (!canMakeEnvironments) {
    process.stderr.write('"python3 -m venv" is missing: install the package python3-venv\n')
    process.exit(1)
  }
  await run(['python3', '-m', 'venv', folder])
  const constraints = ['--constraint', join(source, 'constraints.txt')]
  await run([python, '-m', 'pip', '--disable-pip-version-check', 'install', ...constraints, 'hatchling'])
  return python
}
