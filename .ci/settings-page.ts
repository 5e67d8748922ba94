// `make pages` writes docs/settings.md. A new setting needs a place in `groups` below.
import { writeFileSync } from 'node:fs'

import {
  collectionSettings,
  reloadable,
  required,
  settingsSchema,
  type AnySetting,
} from '../src/settings/schema.ts'

const introduction = `# Settings

Every setting with its default, by what you want to do. \`sync-bridge init\` prints them as a file. [Run a bridge](run.md#configure-it) explains
the file.

Lines that start with \`#\` or \`;\` are comments. A secret can be a file of its name in systemd's credentials directory.

*Upstream* is the token server and the storage. A reload (SIGHUP, \`systemctl reload\`) applies the settings with a star; others need a restart.
`

/** Marks what a reload applies. */
const star = ' \\*'

/** A task of an operator, and the settings for it. */
const groups: Record<string, string[]> = {
  'Connect it to Sync': [
    'token_server_url',
    'certificate_ca_bundle',
    'upstream_timeout_seconds',
    'token_server_heartbeat_timeout_seconds',
  ],
  'Listen, and tell clients the address': ['host', 'port', 'http_scheme', 'http_host', 'http_api_version'],
  'Decide what clients may do': [
    'record_<collection>_put_enabled',
    'record_<collection>_delete_enabled',
    'readonly',
    'readable_collections',
    'batch_max_requests',
    'flush_safe_etag',
  ],
  'Allow web pages': ['cors_origins', 'cors_max_age_seconds'],
  'Serve pages for people': [
    'docs_enabled',
    'explorer_enabled',
    'project_name',
    'project_docs',
    'error_info_link',
  ],
  'Cache credentials': [
    'cache_backend',
    'cache_url',
    'cache_prefix',
    'cache_hmac_secret',
    'cache_hmac_secret_previous',
    'cache_credentials_ttl_seconds',
  ],
  'Run more processes, and replace them': [
    'workers',
    'worker_timeout_seconds',
    'reuse_port',
    'shutdown_delay_seconds',
    'shutdown_grace_seconds',
  ],
  'Limit load': [
    'max_concurrent_requests',
    'max_concurrent_requests_per_user',
    'max_request_bytes',
    'request_timeout_seconds',
  ],
  'Monitor it': [
    'logging_level',
    'logging_renderer',
    'metrics_enabled',
    'metrics_listen',
    'statsd_url',
    'statsd_prefix',
  ],
  'Ask clients to wait, or to leave': ['retry_after_seconds', 'backoff', 'eos', 'eos_message', 'eos_url'],
}

const conclusion = `
## Where to go

- [How to install, change and monitor a bridge](run.md)
- [What the limits protect](scale.md#limits), and the [forms of \`cache_url\`](scale.md#redis)
`

/** Every setting with its default, its meaning and an example if needed. Throws unless each is in exactly one group. */
export function settingsPage(): string {
  const rows = new Map(
    Object.entries<AnySetting>(settingsSchema).map(([name, setting]) => {
      const { initial, meaning, example, secret } = setting
      const byDefault = initial === required ? 'required' : initial === null ? 'none' : `\`${initial}\``
      const shown = example === undefined || secret ? '' : `. Example: \`${example}\``
      return [name, [`\`${name}\`${reloadable.has(name) ? star : ''}`, byDefault, `${meaning}${shown}`]]
    }),
  )
  for (const { form, meaning } of Object.values(collectionSettings)) {
    const example = `. Example: \`${form.replace('<collection>', 'tabs')} = true\``
    rows.set(form, [`\`${form}\`${star}`, '`false`', `${meaning}${example}`])
  }
  const sections = Object.entries(groups).map(([title, names]) => {
    const lines = [
      ['Setting', 'Default', 'Meaning'],
      Array(3).fill('---'),
      ...names.map((name) => {
        const row = rows.get(name)
        if (!row) throw new Error(`The group "${title}" has no setting "${name}" left`)
        rows.delete(name)
        return row
      }),
    ]
    return `\n## ${title}\n\n${lines.map((cells) => `| ${cells.join(' | ')} |\n`).join('')}`
  })
  if (rows.size > 0)
    throw new Error(`Add to "groups" in .ci/settings-page.ts: ${[...rows.keys()].join(', ')}`)
  return `${introduction}${sections.join('')}${conclusion}`
}

if (import.meta.main) writeFileSync('docs/settings.md', settingsPage())
