import { resolve } from 'node:path'
import { fileDescriptorsNeeded } from '../../settings/contradictions.ts'
import { describeCommand, type CommandFactory } from '../command.ts'
import { print } from '../output.ts'
import { loadSettings } from './load-settings.ts'
import { environmentLines } from './runtime-environment.ts'
import template from './systemd-unit.txt' with { type: 'text' }
import type { Host } from '../host.ts'

/** Enough for up to 16 256 requests in flight. */
const defaultFileDescriptors = 65_536

/** Enough for the default delay and grace. */
const defaultStopSeconds = 45
const stopReserveSeconds = 10

const defaultExecutable = '/usr/local/bin/sync-bridge'

/** The settings file of an installed service. */
export const defaultSettingsFile = '/etc/sync-bridge/sync-bridge.ini'

export const systemdUnitCommand: CommandFactory = (perform) =>
  describeCommand('systemd-unit', 'print a hardened unit for systemd')
    .option('-c, --config <FILE>', 'settings file that the unit names', defaultSettingsFile)
    .action(perform((host, { config }) => print(host, systemdUnit(config, host)), { connections: false }))

/** Writes a systemd unit that runs this executable with the settings file, isolated from the rest of the machine. */
export function systemdUnit(path: string, host: Host): string {
  const settingsFile = resolve(host.cwd, path)
  const executable = host.standalone ? host.executablePath : defaultExecutable
  const warning = `warning: this is not the built executable, so the unit uses ${executable}\n`
  if (!host.standalone) host.stderr.write(warning)
  // Uses a dummy secret, because the real one may be in a file that only the service can read.
  const environment = { SERVICE_CACHE_HMAC_SECRET: 'ab'.repeat(32) }
  const settings = loadSettings(settingsFile, { ...host, environment }, () => {})?.settings
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

/** See systemd.service(5), "Command lines": quotes, % and $ are special. */
function quoteArgument(argument: string): string {
  const escaped = argument.replaceAll('%', '%%').replaceAll('$', () => '$$')
  if (/^[\w./@:+,=%$-]+$/.test(escaped)) return escaped
  return `"${escaped.replace(/["\\]/g, '\\$&')}"`
}
