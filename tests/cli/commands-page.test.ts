import { expect, it } from 'bun:test'
import { join } from 'node:path'
import { commandsPage } from '../../.ci/commands-page.ts'

it('docs/commands.md is up to date with the code; "make pages" writes it', async () => {
  const page = await Bun.file(join(import.meta.dir, '../../docs/commands.md')).text()

  expect(page).toBe(commandsPage())
})
