// Prints docs/settings.md, which `make settings-page` writes.
import {
  collectionSettings,
  reloadable,
  required,
  settingsSchema,
  type AnySetting,
} from '../src/settings/schema.ts'

const introduction = `# Settings

All of them, made from \`src/settings/schema.ts\` by \`make settings-page\`. \`sync-bridge init\` prints them as a file to begin with, and
\`sync-bridge check --config FILE\` tells what is wrong with one.

An INI file: \`service.<name> = value\` anywhere, or \`<name> = value\` in a section \`[service]\`. Lines that begin with \`#\` or \`;\` are
comments. Quotes around a value are taken off. A setting that can't be read, or that would be ignored, stops the start; the message names
file, line, key and remedy. \`SERVICE_<NAME>\` in the environment outweighs the file. Secrets may be files of their names in systemd's
credentials directory.

*Upstream* is the token server and the storage. A reload (SIGHUP, \`systemctl reload\`) applies the settings that are marked; the others
need a new process, which a reload starts under systemd.
`

/** Every setting with its default, its meaning and, where that says more, an example. */
export function settingsPage(): string {
  const rows = Object.entries<AnySetting>(settingsSchema).map(([name, setting]) => {
    const { initial, meaning, example, secret } = setting
    const byDefault = initial === required ? 'required' : initial === null ? 'none' : `\`${initial}\``
    const shown = example === undefined || secret ? '' : `\`${example}\``
    return [`\`${name}\``, byDefault, meaning, shown, reloadable.has(name) ? 'yes' : '']
  })
  const gates = Object.values(collectionSettings).map(({ form, meaning }) => {
    return [`\`${form}\``, '`false`', meaning, `\`${form.replace('<collection>', 'tabs')} = true\``, 'yes']
  })
  const lines = [
    ['Setting', 'Default', 'Meaning', 'Example', 'Reload'],
    Array(5).fill('---'),
    ...rows,
    ...gates,
  ]
  return `${introduction}\n${lines.map((cells) => `| ${cells.join(' | ')} |\n`).join('')}`.replaceAll(
    '|  ',
    '| ',
  )
}

if (import.meta.main) process.stdout.write(settingsPage())
