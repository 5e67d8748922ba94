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
