import { describe, expect, it } from 'bun:test'
import { writeFileSync } from 'node:fs'

import { completionScript, type Shell } from '../../src/cli/completion.ts'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/processes.ts'

const calledBy = 'sync-bridge() { echo "called:$*:"; }'
const zsh = ['zsh', '-f', '-i']

/** How to start each shell without this machine's configuration, and a command that prints its arguments. */
const shells: [how: string, shell: Shell, command: string[], begin: string][] = [
  ['bash', 'bash', ['bash', '--norc', '-i'], `${calledBy}; source ./_sync-bridge`],
  ['zsh', 'zsh', zsh, `${calledBy}; autoload -Uz compinit; compinit -u -D; source ./_sync-bridge`],
  [
    'zsh, which finds it by itself',
    'zsh',
    zsh,
    `${calledBy}; fpath+=$PWD; autoload -Uz compinit; compinit -u -D`,
  ],
  [
    'fish',
    'fish',
    ['fish', '--no-config'],
    'function sync-bridge; echo "called:$argv:"; end; source ./_sync-bridge',
  ],
]

describe('completionScript', () => {
  describe.each(shells)('in %s', (_, shell, command, begin) => {
    it.skipIf(Bun.which(shell) === null)('completes what is typed before the Tab key', async () => {
      using folder = temporaryFolder()
      writeFileSync(folder.file('_sync-bridge'), completionScript(shell))
      writeFileSync(folder.file('settings.ini'), '')
      let shown = ''
      const child = Bun.spawn(command, {
        cwd: folder.path,
        env: { PATH: '/usr/bin:/bin', HOME: folder.path, TERM: 'xterm' },
        terminal: { cols: 200, rows: 50, data: (_, bytes) => void (shown += Buffer.from(bytes).toString()) },
      })
      const type = (keys: string) => void child.terminal!.write(`${keys}\r`)
      const has = (text: string) => eventually(`it shows ${text}`, () => shown.includes(text))

      type(`${begin}; echo rea""dy`)
      await has('ready')
      type('sync-bridge ser\t')
      await has('called:serve:')
      type('sync-bridge check --off\t')
      await has('called:check --offline:')
      type('sync-bridge serve --config sett\t')
      await has('called:serve --config settings.ini:')
      type('sync-bridge completion fi\t')
      await has('called:completion fish:')
      type('sync-bridge help healt\t')
      await has('called:help healthcheck:')

      child.kill('SIGKILL')
      await child.exited
      expect(shown).not.toContain('not found')
    })
  })
})
