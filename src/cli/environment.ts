// Credentials travel through these proxies, or are shown to anybody, if the environment says so: only the settings do.
const removed = [
  ...['HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY', 'NO_PROXY'].flatMap((name) => [name, name.toLowerCase()]),
  'NODE_TLS_REJECT_UNAUTHORIZED',
  'NODE_EXTRA_CA_CERTS',
  'SSL_CERT_FILE',
  'SSL_CERT_DIR',
  'SSLKEYLOGFILE',
  'BUN_CONFIG_VERBOSE_FETCH',
]

/** Variables that the runtime has already read when our code begins, or that nobody sets without meaning them. */
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

/** Certificates named by these were added to the trusted ones before our code began. */
const trusting = ['NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE', 'SSL_CERT_DIR']

/**
 * Takes variables out of the environment that would redirect, expose or weaken connections to upstream. Has to run
 * before the first connection. Answers the problems that are reason not to start, and the variables whose effect
 * could not be undone: they widen the trust in certificates as long as no bundle of our own is set.
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
