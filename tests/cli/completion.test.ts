import { describe, expect, it } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { completionScript, type Shell } from '../../src/cli/completion.ts'
import { createProgram } from '../../src/cli/run.ts'
import { eventually } from '../support/eventually.ts'
import { hasNoTerminals } from '../support/machine.ts'
import { temporaryFolder } from '../support/processes.ts'
import { startOnTerminal } from '../support/terminal.ts'

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

// The shells themselves, because each interprets its script in its own way.
describe('completionScript', () => {
  describe.each(shells)('in %s', (_, shell, command, begin) => {
    const isMissing = hasNoTerminals || Bun.which(shell) === null
    it.skipIf(isMissing)('completes what is typed before the Tab key', async () => {
      using folder = temporaryFolder()
      writeFileSync(folder.file('_sync-bridge'), completionScript(shell, createProgram().commands))
      writeFileSync(folder.file('settings.ini'), '')
      const env = { PATH: '/usr/bin:/bin', HOME: folder.path, TERM: 'xterm' }
      const { child, type, shown } = startOnTerminal(command, { cwd: folder.path, env })
      const enter = (keys: string) => type(`${keys}\r`)
      const has = (text: string) => eventually(`it shows ${text}`, () => shown().includes(text))

      enter(`${begin}; echo rea""dy`)
      await has('ready')
      enter('sync-bridge ser\t')
      await has('called:serve:')
      enter('sync-bridge check --off\t')
      await has('called:check --offline:')
      enter('sync-bridge serve --config sett\t')
      await has('called:serve --config settings.ini:')
      enter('sync-bridge completion fi\t')
      await has('called:completion fish:')
      enter('sync-bridge export tabs --format markd\t')
      await has('called:export tabs --format markdown:')
      enter('sync-bridge export tabs --format firefox-j\t')
      await has('called:export tabs --format firefox-j:')
      enter('sync-bridge export --format ht\t')
      await has('called:export --format html:')
      enter('sync-bridge export book\t')
      await has('called:export bookmarks:')
      enter('sync-bridge ls histo\t')
      await has('called:ls history:')
      enter('sync-bridge help healt\t')
      await has('called:help healthcheck:')
      // Only what the command accepts: neither addons, nor crypto.
      enter('sync-bridge rm add\t')
      await has('called:rm addresses:')
      enter('sync-bridge ls cr\t')
      await has('called:ls creditcards:')
      // Each argument has its own words, and an option with its value is none.
      enter('sync-bridge set \t')
      await has('called:set passwords:')
      enter('sync-bridge set passwords pass\t')
      await has('called:set passwords pass:')
      enter('sync-bridge restore sett\t')
      await has('called:restore settings.ini:')
      enter('sync-bridge restore settings.ini hist\t')
      await has('called:restore settings.ini history:')
      enter('sync-bridge rm --bridge http://a:1 add\t')
      await has('called:rm --bridge http://a:1 addresses:')

      child.kill('SIGKILL')
      await child.exited
      expect(shown()).not.toContain('not found')
    })
  })
})
