import { collectionSettings, required, settingsSchema } from '../../src/settings/schema.ts'

import type { AnySetting } from '../../src/settings/schema.ts'

/** Every setting with its default and meaning, as a Markdown table. */
export function settingsTable(): string {
  const rows = Object.entries<AnySetting>(settingsSchema).map(([name, { initial, meaning }]) => {
    const byDefault = initial === required ? 'required' : initial === null ? 'none' : `\`${initial}\``
    return `| \`${name}\` | ${byDefault} | ${meaning} |`
  })
  const gates = Object.values(collectionSettings).map(
    ({ form, meaning }) => `| \`${form}\` | \`false\` | ${meaning} |`,
  )
  return ['| Key | Default | Meaning |', '|---|---|---|', ...rows, ...gates, ''].join('\n')
}
