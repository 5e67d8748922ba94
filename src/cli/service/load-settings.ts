import { findContradictions } from '../../settings/contradictions.ts'
import { readSettings, renderProblem, type EffectiveSetting, type Settings } from '../../settings/settings.ts'
import { reasonOf } from '../../settings/readers.ts'
import type { SettingsProblem } from '../../settings/sources.ts'
import type { Host } from '../host.ts'

/**
 * Reads the settings from a file, or only from the environment if `path` is null. Returns null if there are problems. `report` gets each
 * warning and problem as a line.
 */
export function loadSettings(
  path: string | null,
  host: Host,
  report: (line: string) => void = (line) => host.stderr.write(`${line}\n`),
): { settings: Settings; effective: EffectiveSetting[] } | null {
  const { environment, readFile, processes, trusting = [] } = host
  const refuse = (problems: SettingsProblem[]) => {
    for (const problem of problems) report(renderProblem(problem))
    const count = problems.length
    report(`sync-bridge: ${count} ${count === 1 ? 'problem' : 'problems'} with the settings`)
    return null
  }
  const warn = (warnings: string[]) => {
    for (const warning of warnings) report(`warning: ${warning}`)
  }
  let file: { path: string; text: string } | null
  try {
    file = path === null ? null : { path, text: readFile(path) }
  } catch (cause) {
    const { code } = cause as { code?: unknown }
    const group = `make it readable for the service: chgrp sync-bridge ${path} && chmod 640 ${path}`
    const remedy = code === 'EACCES' ? group : 'specify the settings file with --config FILE'
    report(`${path}: cannot be read (${reasonOf(cause)}): ${remedy}`)
    return null
  }

  const outcome = readSettings({ file, environment, readFile })
  if ('problems' in outcome) {
    // A misspelt variable is ignored, and may be why a setting is missing.
    warn(outcome.warnings)
    return refuse(outcome.problems)
  }

  const { settings, effective } = outcome
  const maxFileDescriptors = processes?.maxFileDescriptors() ?? null
  const contradictions = findContradictions(settings, effective, { nowMs: host.now(), maxFileDescriptors })
  if (contradictions.problems.length > 0) return refuse(contradictions.problems)
  const warnings = [...outcome.warnings, ...contradictions.warnings.map(renderProblem)]
  const holdsSecret = effective.some(({ secret, source }) => secret && source.startsWith(`${path}:`))
  if (path !== null && holdsSecret && host.otherReaders(path) === 'every user')
    warnings.push(`${path}: contains a secret and can be read by every user: chmod o-r ${path}`)
  const wider = 'adds trusted certificates: unset it, or set service.certificate_ca_bundle'
  if (!settings.certificateCaBundle && settings.tokenServerUrl.startsWith('https:'))
    warnings.push(...trusting.map((name) => `environment: ${name} ${wider}`))
  warn(warnings)
  return { settings, effective }
}

/**
 * Removes variables from the environment that would redirect, expose or weaken upstream connections. Call it before the first connection.
 * Returns problems that prevent a start, variables with an effect that can't be undone (they add trusted certificates unless a bundle is
 * set), and those of proxies with their values, for a person's own commands.
 */
export function scrubEnvironment(environment: Record<string, string | undefined>) {
  const problems = refused
    .filter(([name, harmless]) => !harmless.includes(environment[name] ?? ''))
    .map(([name, , reason]) => `environment: ${name} ${reason}: unset it`)
  const widened = trusting.filter((name) => environment[name])
  const given = Object.fromEntries(proxies.map((name) => [name, environment[name]]))
  for (const name of [...proxies, ...trusting, ...refused.map(([name]) => name)]) delete environment[name]
  return { problems, trusting: widened, proxies: given }
}

// Proxies would see users' credentials, so only the settings decide where these go.
const proxyVariables = ['HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY', 'NO_PROXY']
const proxies = [...proxyVariables, ...proxyVariables.map((name) => name.toLowerCase())]

/** The runtime trusts the certificates in these files before our code starts. */
const trusting = ['NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE', 'SSL_CERT_DIR']

/** Variables that the runtime reads before our code starts, or that are only harmful. */
const refused: [name: string, harmless: string[], reason: string][] = [
  ['NODE_TLS_REJECT_UNAUTHORIZED', ['', '1'], 'disables the verification of TLS certificates'],
  ['SSLKEYLOGFILE', [''], 'writes the keys of TLS connections to a file'],
  ['BUN_CONFIG_VERBOSE_FETCH', ['', '0', 'false'], "prints requests with users' credentials"],
  ['BUN_INSPECT', [''], 'lets others run code in this process'],
  ['BUN_INSPECT_CONNECT_TO', [''], 'lets others run code in this process'],
]
