import { afterAll, describe, expect, it } from 'bun:test'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

import { endAll, executablePath, iniText, makeFolder } from '../support/executable.ts'

afterAll(endAll)

const asRoot = ['--map-root-user', '--mount']
const { exitCode } = Bun.spawnSync(['unshare', ...asRoot, 'mount', '-t', 'tmpfs', 'tmpfs', '/run'])
const journald = '/lib/systemd/systemd-journald'

/**
 * Starts systemd's journal in a world of its own, and the program with both outputs in it, until the journal has a line with
 * that text. Then prints what the journal has of the program.
 */
const script = (program: string, text: string) => `set -e
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/journal /run/log/journal /run/systemd/journald.conf.d
printf '[Journal]\\nStorage=volatile\\nReadKMsg=no\\nAudit=no\\n' >/run/systemd/journald.conf.d/alone.conf
${journald} & journal=$!
until [ -S /run/systemd/journal/stdout ]; do sleep 0.01; done
# What systemd sets for the programs that it starts.
systemd-cat -t trial sh -c 'JOURNAL_STREAM=$(stat -L -c %d:%i /proc/$$/fd/2); export JOURNAL_STREAM; exec ${program}' & trial=$!
until journalctl -q -t trial | grep -q '${text}'; do sleep 0.01; done
kill $trial
wait $trial
journalctl --sync
journalctl -q -t trial -o json --output-fields=PRIORITY,MESSAGE
kill $journal`

interface Entry {
  PRIORITY: string
  MESSAGE: string
}

describe('the journal of systemd', () => {
  it.skipIf(exitCode !== 0 || !existsSync(journald))(
    'has every line with the priority of its level, and as it was written',
    async () => {
      // Redis is absent, which is a warning of the running service; the collection is one of the start.
      const settings = {
        token_server_url: 'http://127.0.0.1:1',
        cache_backend: 'redis',
        cache_url: 'redis://127.0.0.1:1',
        logging_level: 'debug',
        record_bookmark_put_enabled: 'true',
      }
      const folder = makeFolder({ 'bridge.ini': iniText(settings) })
      const program = `${executablePath} serve --config ${join(folder, 'bridge.ini')}`
      writeFileSync(join(folder, 'trial.sh'), script(program, 'redis error'))

      const trial = Bun.spawn(['unshare', ...asRoot, 'bash', join(folder, 'trial.sh')], { stderr: 'ignore' })
      const entries = (await new Response(trial.stdout).text())
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as Entry)

      const priorities = { debug: '7', info: '6', warning: '4', error: '3' }
      const [first, ...events] = entries
      expect(first!.MESSAGE).toStartWith('warning: ')
      expect(first!.PRIORITY).toBe('4')
      const told = events.map(({ PRIORITY, MESSAGE }) => {
        const { level, event } = JSON.parse(MESSAGE) as { level: keyof typeof priorities; event: string }
        return { event, isRight: PRIORITY === priorities[level] }
      })
      expect(told).toContainEqual({ event: 'listening', isRight: true })
      expect(told).toContainEqual({ event: 'redis error', isRight: true })
      expect(told.filter(({ isRight }) => !isRight)).toEqual([])
    },
  )
})
