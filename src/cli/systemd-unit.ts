import { resolve } from 'node:path'
import { fileDescriptorsNeeded } from '../settings/contradictions.ts'
import { defaultSettingsFile } from './command-line.ts'
import { loadSettings } from './load-settings.ts'
import { environmentLines } from './runtime-environment.ts'
import template from './systemd-unit.txt' with { type: 'text' }
import type { Host } from './host.ts'

/** Enough for settings that admit up to 16 256 requests at a time. */
const defaultFileDescriptors = 65_536

/** Enough for the delay and the grace of the defaults. */
const defaultStopSeconds = 45
const stopReserveSeconds = 10

const defaultExecutable = '/usr/local/bin/sync-bridge'

/** A unit for systemd that runs this executable with the settings file or the usual one, isolated from the rest of the machine. */
export function systemdUnit(path: string | null, host: Host): string {
  const settingsFile = resolve(host.cwd, path ?? defaultSettingsFile)
  const executable = host.standalone ? host.executablePath : defaultExecutable
  const warning = `warning: this is not the built executable: the unit names ${executable} instead\n`
  if (!host.standalone) host.stderr.write(warning)
  // The secret may be in a file of its own that only the service can read; nothing is encrypted with this one.
  const environment = { SERVICE_CACHE_HMAC_SECRET: 'ab'.repeat(32) }
  const settings = loadSettings(settingsFile, { ...host, environment }, [], () => {})?.settings
  const stopSeconds = settings ? settings.shutdownDelaySeconds + settings.shutdownGraceSeconds : 0
  const values: Record<string, string> = {
    '@EXECUTABLE@': quoteArgument(executable),
    '@SETTINGS@': quoteArgument(settingsFile),
    '@ENVIRONMENT@': environmentLines.join(' '),
    '@FILES@': String(Math.max(defaultFileDescriptors, settings ? fileDescriptorsNeeded(settings) : 0)),
    '@STOP@': String(Math.max(defaultStopSeconds, Math.ceil(stopSeconds) + stopReserveSeconds)),
  }
  return template.replaceAll(/@[A-Z]+@/g, (name) => values[name]!)
}

/** See systemd.service(5), "Command lines": quotes, % and $ have meanings of their own. */
function quoteArgument(argument: string): string {
  const escaped = argument.replaceAll('%', '%%').replaceAll('$', () => '$$')
  if (/^[\w./@:+,=%$-]+$/.test(escaped)) return escaped
  return `"${escaped.replace(/["\\]/g, '\\$&')}"`
}
