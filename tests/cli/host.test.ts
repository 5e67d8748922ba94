import { describe, expect, it } from 'bun:test'
import { join } from 'node:path'

import { processHost } from '../../src/cli/host.ts'
import { runBash } from '../support/processes.ts'

const hostFile = join(import.meta.dir, '../../src/cli/host.ts')

// Processes, because these tests close, fill and end standard output.
describe('processHost', () => {
  it('reads virtual files of the kernel', () => {
    const text = processHost().readFile('/proc/sys/net/ipv4/ip_forward')

    expect(text).toMatch(/^[01]\n$/)
  })

  it('reports a closed reader to the writer only', () => {
    const program = `
      import { processHost } from ${JSON.stringify(hostFile)}
      const { stdout, stderr } = processHost()
      stdout.write('a').then((error) => setImmediate(() => stderr.write('told ' + error?.code)))`
    const shell = 'exec 3> >(exit); wait $!; "$1" -e "$2" >&3'

    const { exitCode, stderr } = runBash(shell, process.execPath, program)

    expect([exitCode, stderr.toString()]).toEqual([0, 'told EPIPE'])
  })

  it('waits until output is written, but not for a reader that has stopped', async () => {
    const program = `
      import { processHost } from ${JSON.stringify(hostFile)}
      const { stdout, drain } = processHost()
      stdout.write('a'.repeat(1_000_000))
      await drain(process.argv[1] === 'read' ? 60_000 : 20)
      process.exit(3)`
    const start = (mode: string) => Bun.spawn([process.execPath, '-e', program, mode], { stdout: 'pipe' })

    const read = start('read')
    const shell = 'mkfifo "$3"; exec 4<>"$3"; rm "$3"; "$1" -e "$2" stalled >&4'
    const stalled = runBash(shell, process.execPath, program, `/tmp/sync-bridge-fifo-${process.pid}`)

    expect((await new Response(read.stdout).text()).length).toBe(1_000_000)
    expect(await read.exited).toBe(3)
    expect(stalled.exitCode).toBe(3)
  })
})
