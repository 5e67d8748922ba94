import { quoteText } from '../observability/log.ts'
import { collectionSettings, required, settingsSchema, type AnySetting } from './schema.ts'
import type { EffectiveSetting } from './settings.ts'

/** Formats the effective settings, one per line with its source. Masks secrets, and passwords in addresses. */
export function maskedSettings(effective: EffectiveSetting[]): string[] {
  const shown = effective.map((setting) => {
    return { line: `service.${setting.name} = ${maskedValue(setting) ?? '(none)'}`, source: setting.source }
  })
  const width = Math.min(72, Math.max(...shown.map(({ line }) => line.length)))
  return shown.map(({ line, source }) => `${line.padEnd(width)}  (${source})`)
}

/** The value to show; null: none. */
export function maskedValue({ name, text, secret }: EffectiveSetting): string | null {
  if (text === null || (text === '' && secret)) return null
  if (secret) return mask
  const masked = name === 'cache_url' ? maskPasswords(text) : text
  const quoted = quoteText(masked, 512)
  return quoted.slice(1, -1) === masked ? masked : quoted
}

/**
 * Writes an initial settings file: every setting explained and commented out at its default, and a secret. Required settings are commented
 * out too, so that reading the file reports them as missing.
 */
export function annotatedIni(secretHex: string): string {
  const paragraphs = settings.map(([name, setting]) => {
    if (name === 'cache_hmac_secret') return [`# ${setting.meaning}.`, `service.${name} = ${secretHex}`]
    const { initial, example, meaning } = setting
    let note = initial === required ? ' Required.' : ''
    if (initial === null) note = ' Not set by default; an example:'
    return [`# ${meaning}.${note}`, `# service.${name} = ${typeof initial === 'string' ? initial : example}`]
  })
  const gates = Object.values(collectionSettings).map(({ form, meaning }) => {
    return [`# ${meaning} of one collection.`, `# service.${form.replace('<collection>', 'tabs')} = true`]
  })
  return `${[introduction, ...paragraphs, ...gates].map((lines) => lines.join('\n')).join('\n\n')}\n`
}

const introduction = [
  '# Settings of sync-bridge. A line is a setting or a comment; comments begin with # and are on separate lines.',
  '# Settings that are commented out show their defaults. Environment variables SERVICE_<NAME> override',
  '# this file. "sync-bridge check --config FILE" lists every problem.',
  '# Upstream is the token server and the storage. This file contains a secret: only the service should read it.',
]

const settings = Object.entries<AnySetting>(settingsSchema)
const mask = '********'

/** Masks the login and the password of sentinels, the only secrets that an address of the cache may contain. */
function maskPasswords(url: string): string {
  return url.replace(/:\/\/[^/?]*@/, `://${mask}@`).replace(/(?<=[?&]sentinel_password=)[^&]*/g, mask)
}
