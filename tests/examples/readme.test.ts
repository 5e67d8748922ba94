import { afterAll, describe, expect, it } from 'bun:test'
import { symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { findPython, kintoHttp } from '../clients/python.ts'
import { endAll, makeFolder, start } from '../system/process.ts'

const root = join(import.meta.dir, '../..')
const python = await findPython()
const why = 'reason' in python ? ` (NOT RUN: ${python.reason})` : ''
afterAll(endAll)

describe('the examples of the README', () => {
  it.skipIf('reason' in python)(`run as they stand, in their order, pasted into a shell${why}`, async () => {
    const sandbox = start(['sandbox', '--port', '0'])
    const [source] = await sandbox.line(/^ {2}\. \S+$/)
    const commands = await commandsUnder('## Examples to take')

    const { output, errors, code } = await paste([source!, 'set -e', ...commands])
    sandbox.signal('SIGTERM')
    await sandbox.exited

    expect([errors, code]).toEqual(['', 0])
    expect(commands.length).toBeGreaterThan(3)
    expect(output).toContain('"project_name":"Sync Bridge"')
    expect(output).toContain('300 bookmarks and folders')
    expect(output).toContain('history: 3000 records')
    expect(output).toContain('Sync Bridge has 3 records in tabs')
  })
})

describe('first_steps.py', () => {
  it.skipIf(!Bun.which('python3'))('tells how to install the package where it is missing', async () => {
    const { errors, code } = await paste(['exec python3 -S docs/examples/python/first_steps.py tabs'])

    expect(code).toBe(1)
    expect(errors).toContain(`  kinto-python/bin/pip install ${kintoHttp}\n`)
    expect(errors).toContain('  kinto-python/bin/python docs/examples/python/first_steps.py tabs\n')
  })
})

/** The lines of the first piece of shell below a heading. */
async function commandsUnder(heading: string): Promise<string[]> {
  const text = await Bun.file(join(root, 'README.md')).text()
  const [, commands] = /```sh\n([^]*?)```/.exec(text.slice(text.indexOf(`\n${heading}\n`)))!
  return commands!.trimEnd().split('\n')
}

/** Types lines into a shell, in a folder that has the examples where the repository has them. */
async function paste(lines: string[]) {
  const folder = makeFolder()
  symlinkSync(join(root, 'docs'), join(folder, 'docs'))
  symlinkSync(process.execPath, join(folder, 'bun'))
  const pythonFolder = 'path' in python ? [dirname(python.path)] : []
  const child = Bun.spawn(['sh'], {
    cwd: folder,
    env: { PATH: [folder, ...pythonFolder, '/usr/local/bin', '/usr/bin', '/bin'].join(':') },
    stdin: Buffer.from(`${lines.join('\n')}\n`),
    stdout: 'pipe',
    stderr: 'pipe',
    timeout: 50_000,
  })
  const [output, errors, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  return { output, errors, code }
}
