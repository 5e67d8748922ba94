import { findContradictions } from '../settings/contradictions.ts'
import { readSettings, renderProblem, type EffectiveSetting, type Settings } from '../settings/settings.ts'
import { reasonOf } from '../settings/readers.ts'
import type { SettingsProblem } from '../settings/sources.ts'
import type { Host } from './host.ts'

/**
 * Reads the settings from a file, or from the environment alone when it is null. `report` gets warnings line by line; so it does
 * problems, all of them, and then the answer is null.
 */
export function loadSettings(
  path: string | null,
  host: Host,
  trusting: string[] = [],
  report: (line: string) => void = (line) => host.stderr.write(`${line}\n`),
): { settings: Settings; effective: EffectiveSetting[] } | null {
  const { environment, readFile, processes } = host
  const refuse = (problems: SettingsProblem[]) => {
    for (const problem of problems) report(renderProblem(problem))
    const count = problems.length
    report(`sync-bridge: ${count} ${count === 1 ? 'problem' : 'problems'} with the settings`)
    return null
  }
  let file: { path: string; text: string } | null
  try {
    file = path === null ? null : { path, text: readFile(path) }
  } catch (cause) {
    const { code } = cause as { code?: unknown }
    const group = `let the group of the service read it: chgrp sync-bridge ${path} && chmod 640 ${path}`
    const remedy = code === 'EACCES' ? group : 'name the settings file with --config FILE'
    report(`${path}: cannot be read (${reasonOf(cause)}): ${remedy}`)
    return null
  }

  const outcome = readSettings({ file, environment, readFile })
  if ('problems' in outcome) return refuse(outcome.problems)

  const { settings, effective } = outcome
  const maxFileDescriptors = processes?.maxFileDescriptors() ?? null
  const contradictions = findContradictions(settings, effective, { nowMs: host.now(), maxFileDescriptors })
  if (contradictions.problems.length > 0) return refuse(contradictions.problems)
  // The supervisor has read the same settings and has warned already.
  if (processes?.supervisor) return { settings, effective }
  const warnings = [...outcome.warnings, ...contradictions.warnings.map(renderProblem)]
  const holdsSecret = effective.some(({ secret, source }) => secret && source.startsWith(`${path}:`))
  if (path !== null && holdsSecret && host.isPublic(path))
    warnings.push(`${path}: contains a secret and can be read by every user: chmod o-r ${path}`)
  const wider = 'adds to the certificates that are trusted: unset it, or set service.certificate_ca_bundle'
  if (!settings.certificateCaBundle && settings.tokenServerUrl.startsWith('https:'))
    warnings.push(...trusting.map((name) => `environment: ${name} ${wider}`))
  for (const warning of warnings) report(`warning: ${warning}`)
  return { settings, effective }
}

/**
 * Removes variables from the environment that would redirect, expose or weaken connections to upstream. Called before the
 * first connection. Returns the problems that stop the start, and the variables whose effect can't be undone: they add
 * trusted certificates where no bundle of our own is set.
 */
export function scrubEnvironment(environment: Record<string, string | undefined>) {
  const problems = refused
    .filter(([name, harmless]) => !harmless.includes(environment[name] ?? ''))
    .map(([name, , reason]) => `environment: ${name} ${reason}: unset it`)
  const widened = trusting.filter((name) => environment[name])
  for (const name of [...proxies, ...trusting, ...refused.map(([name]) => name)]) delete environment[name]
  return { problems, trusting: widened }
}

// Proxies would see users' credentials: only the settings decide where credentials go.
const proxyVariables = ['HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY', 'NO_PROXY']
const proxies = [...proxyVariables, ...proxyVariables.map((name) => name.toLowerCase())]

/** The certificates in these files are trusted before our code begins. */
const trusting = ['NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE', 'SSL_CERT_DIR']

/** Variables that the runtime has read before our code begins, or whose only purpose is harmful. */
const refused: [name: string, harmless: string[], reason: string][] = [
  ['NODE_TLS_REJECT_UNAUTHORIZED', ['', '1'], 'switches the verification of TLS off'],
  ['SSLKEYLOGFILE', [''], 'writes the keys of TLS connections to a file'],
  ['BUN_CONFIG_VERBOSE_FETCH', ['', '0', 'false'], "prints requests with users' credentials"],
  ['BUN_INSPECT', [''], 'lets others run code in this process'],
  ['BUN_INSPECT_CONNECT_TO', [''], 'lets others run code in this process'],
]
