import { describe, expect, it } from 'bun:test'
import { join } from 'node:path'

import { fetchSlotsOf } from '../../src/cli/runtime-environment.ts'
import { temporaryFolder } from '../support/processes.ts'

const file = join(import.meta.dir, '../../src/cli/runtime-environment.ts')

describe('fetchSlotsOf', () => {
  it.each([
    [undefined, 256],
    ['1024', 1024],
    ['16', 16],
    ['65535', 65_535],
    // The runtime ignores these as well.
    ['65536', 256],
    ['0', 256],
    ['-1', 256],
    ['1e3', 256],
    ['many', 256],
    ['', 256],
  ])('reads %p as %d', (given, expected) => {
    expect(fetchSlotsOf({ BUN_CONFIG_MAX_HTTP_REQUESTS: given })).toBe(expected)
  })
})

describe('restartInRuntimeEnvironment', () => {
  it('has more requests under way than the runtime has by itself, in the same process, with the same arguments', async () => {
    const requests = 700
    const all = Promise.withResolvers<void>()
    let held = 0
    // Answers nobody before all have asked.
    using server = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      idleTimeout: 0,
      async fetch() {
        held += 1
        if (held === requests) all.resolve()
        await all.promise
        return new Response()
      },
    })
    const program = `
      import { restartInRuntimeEnvironment } from ${JSON.stringify(file)}
      restartInRuntimeEnvironment()
      const ask = () => fetch('${server.url}').then((answer) => answer.text())
      await Promise.all(Array.from({ length: ${requests} }, ask))
      console.log(process.pid, process.argv.slice(2).join('|'))`
    using folder = temporaryFolder()
    await Bun.write(folder.file('ask.ts'), program)
    const child = Bun.spawn([process.execPath, folder.file('ask.ts'), 'a b', '--c'], {
      env: { PATH: '/usr/bin:/bin' },
      stdout: 'pipe',
    })

    expect(await new Response(child.stdout).text()).toBe(`${child.pid} a b|--c\n`)
  })
})
