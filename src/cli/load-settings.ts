import { fileDescriptorsNeeded, readSettings, renderProblem } from '../settings/settings.ts'
import { reasonOf } from '../settings/readers.ts'

import type { EffectiveSetting, Settings } from '../settings/settings.ts'
import type { Host } from './host.ts'

/**
 * Reads the settings from a file, or from the environment alone when it is null. Warnings go to stderr; so do
 * problems, one per line and all of them, and then the answer is null.
 */
export async function loadSettings(
  path: string | null,
  host: Host,
  trusting: string[],
): Promise<{ settings: Settings; effective: EffectiveSetting[] } | null> {
  const file = path === null ? null : readSettingsFile(path, host)
  if (file && 'problem' in file) {
    host.stderr.write(`${path}: ${file.problem}\n`)
    return null
  }

  const outcome = readSettings({
    file,
    environment: host.environment,
    readFile: host.readFile,
    credentialsDirectory: host.environment.CREDENTIALS_DIRECTORY,
  })
  if ('problems' in outcome) {
    for (const problem of outcome.problems) host.stderr.write(`${renderProblem(problem)}\n`)
    const count = outcome.problems.length
    host.stderr.write(`sync-bridge: ${count} ${count === 1 ? 'problem' : 'problems'} with the settings\n`)
    return null
  }

  const { settings, effective } = outcome
  // The supervisor has read the same settings and has warned already.
  if (host.processes?.supervisor) return { settings, effective }
  const warnings = [
    ...outcome.warnings,
    ...exposedSecret(path, effective, host),
    ...widerTrust(settings, trusting),
    ...(await fewFileDescriptors(settings, host)),
  ]
  for (const warning of warnings) host.stderr.write(`warning: ${warning}\n`)
  return { settings, effective }
}

async function fewFileDescriptors(settings: Settings, host: Host): Promise<string[]> {
  const limit = (await host.processes?.maxFileDescriptors()) ?? Infinity
  const needed = fileDescriptorsNeeded(settings)
  if (limit >= needed) return []
  const remedy = `raise LimitNOFILE= or "ulimit -n" to ${needed}, or lower the setting`
  return [`service.max_concurrent_requests: a process may open ${limit} files, which is too few: ${remedy}`]
}

function readSettingsFile(path: string, host: Host): { path: string; text: string } | { problem: string } {
  try {
    return { path, text: host.readFile(path) }
  } catch (cause) {
    const isDenied = (cause as { code?: unknown }).code === 'EACCES'
    const remedy = isDenied
      ? `let the group of the service read it: chgrp sync-bridge ${path} && chmod 640 ${path}`
      : 'name the settings file with --config FILE'
    return { problem: `cannot be read (${reasonOf(cause)}): ${remedy}` }
  }
}

function exposedSecret(path: string | null, effective: EffectiveSetting[], host: Host): string[] {
  const holdsSecret = effective.some(({ secret, source }) => secret && source.startsWith(`${path}:`))
  if (path === null || !holdsSecret || !host.isPublic(path)) return []
  return [`${path}: contains a secret and can be read by every user: chmod o-r ${path}`]
}

function widerTrust(settings: Settings, trusting: string[]): string[] {
  if (settings.certificateCaBundle || !settings.tokenServerUrl.startsWith('https:')) return []
  const remedy = 'unset it, or set service.certificate_ca_bundle'
  return trusting.map((name) => `environment: ${name} adds to the certificates that are trusted: ${remedy}`)
}

/**
 * Removes variables from the environment that would redirect, expose or weaken connections to upstream. Called before the
 * first connection. Returns the problems that stop the start, and the variables whose effect can't be undone: they add
 * trusted certificates where no bundle of our own is set.
 */
export function scrubEnvironment(environment: Record<string, string | undefined>): {
  problems: string[]
  trusting: string[]
} {
  const problems = refused
    .filter(({ name, harmless }) => !harmless.includes(environment[name] ?? ''))
    .map(({ name, reason }) => `environment: ${name} ${reason}: unset it`)
  const widened = trusting.filter((name) => environment[name])
  for (const name of removed) delete environment[name]
  return { problems, trusting: widened }
}

// Proxies would see users' credentials, and other variables show or expose them: only the settings decide where
// credentials go.
const removed = [
  ...['HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY', 'NO_PROXY'].flatMap((name) => [name, name.toLowerCase()]),
  'NODE_TLS_REJECT_UNAUTHORIZED',
  'NODE_EXTRA_CA_CERTS',
  'SSL_CERT_FILE',
  'SSL_CERT_DIR',
  'SSLKEYLOGFILE',
  'BUN_CONFIG_VERBOSE_FETCH',
]

/** Variables that the runtime has read before our code begins, or whose only purpose is harmful. */
const refused = [
  {
    name: 'NODE_TLS_REJECT_UNAUTHORIZED',
    harmless: ['', '1'],
    reason: 'switches the verification of TLS off',
  },
  { name: 'SSLKEYLOGFILE', harmless: [''], reason: 'writes the keys of TLS connections to a file' },
  {
    name: 'BUN_CONFIG_VERBOSE_FETCH',
    harmless: ['', '0', 'false'],
    reason: "prints requests with users' credentials",
  },
]

/** The certificates in these files are trusted before our code begins. */
const trusting = ['NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE', 'SSL_CERT_DIR']
