// Writes docs/interface.md, which `make promises` does: every name that 1.x keeps. A name that the page has and the code no longer
// has stops it, because that would break users' alerts, scripts or settings.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

import { descriptions, generalHelp, defaultSettingsFile } from '../src/cli/command-line.ts'
import { createLog } from '../src/observability/log.ts'
import { logEvents } from '../src/observability/log-events.ts'
import { createRegistry } from '../src/observability/registry.ts'
import { resources } from '../src/protocol/find.ts'
import { createObservers } from '../src/service/observers.ts'
import { addProcessMetrics } from '../src/service/process-metrics.ts'
import { collectionSettings, removedSettings, settingsSchema } from '../src/settings/schema.ts'

/** Where the page is. */
export const interfacePath = join(import.meta.dir, '../docs/interface.md')

/** A name with its meaning, which may be empty. */
type Entry = [name: string, meaning: string]

interface Section {
  title: string
  /** What one of its names is called in a sentence. */
  kind: string
  note?: string
  entries: Entry[]
}

const introduction = `# What 1.x keeps

Every name that settings files, scripts, alerts and clients can depend on. Within 1.x, none is removed or renamed, or changes its
meaning. Any release may add new ones; ignore unknown ones. [promises.md](promises.md) says how the bridge
behaves. Everything else may change: texts for people, fields of log lines, the order of lists, the layout of pages.

Made from the code by \`make promises\`.
`

/** All that is promised, as the code has it. */
export function interfaceSections(): Section[] {
  return [
    {
      title: 'Settings',
      kind: 'setting',
      note: '[settings.md](settings.md) has their meanings and defaults. A default may change in a release that says so.',
      entries: [
        ...Object.keys(settingsSchema),
        ...Object.values(collectionSettings).map(({ form }) => form),
      ].map((name): Entry => [name, '']),
    },
    {
      title: 'Removed settings',
      kind: 'removed setting',
      note: 'Ignored with a warning, in all of 1.x.',
      entries: Array.from(removedSettings, (name): Entry => [name, '']),
    },
    { title: 'Commands', kind: 'command', entries: commandEntries() },
    { title: 'Exit codes', kind: 'exit code', entries: exitCodes() },
    {
      title: 'Log events',
      kind: 'log event',
      note: 'The `event` of a line of the log. Every line has `time`, `level` and `event`.',
      entries: Object.entries(logEvents),
    },
    { title: 'Metrics', kind: 'metric', note: 'Also the names of their labels.', entries: metricEntries() },
    {
      title: 'Paths',
      kind: 'path',
      note: 'The number after `/v` is that of `http_api_version`. HEAD is answered wherever GET is.',
      entries: pathEntries(),
    },
    { title: 'Files', kind: 'file', entries: fileEntries() },
  ]
}

/** The page as Markdown. */
export function interfacePage(sections: Section[]): string {
  const texts = sections.map(({ title, note, entries }) => {
    const lines = entries.map(([name, meaning]) => `- \`${name}\`${meaning && `: ${meaning}`}\n`)
    return `## ${title}\n\n${note === undefined ? '' : `${note}\n\n`}${lines.join('')}`
  })
  return [introduction, ...texts].join('\n')
}

/** A sentence for each name that the page has and the sections don't: what happened, and what to do. */
export function brokenPromises(page: string, sections: Section[]): string[] {
  return sections.flatMap(({ title, kind, entries }) => {
    const names = new Set(entries.map(([name]) => name))
    const [, text = ''] = page.split(`\n## ${title}\n`)
    const promised = Array.from(text.split('\n## ')[0]!.matchAll(/^- `([^`]+)`/gm), ([, name]) => name!)
    return promised
      .filter((name) => !names.has(name) && !(kind === 'setting' && removedSettings.has(name)))
      .map((name) => `1.x promises the ${kind} "${name}", and the code no longer has it: ${remedyFor(kind)}`)
  })
}

function remedyFor(kind: string): string {
  return kind === 'setting'
    ? 'bring it back, or add it to removedSettings in src/settings/schema.ts, so that a start warns of it'
    : 'bring it back, or delete its line from docs/interface.md, say so in CHANGELOG.md, and release 2.0'
}

function commandEntries(): Entry[] {
  const own = descriptions.flatMap(([command, { summary, options, words = [] }]): Entry[] => [
    [command, summary],
    ...words.flatMap(({ name, choices = [name] }) =>
      choices.map((word): Entry => [`${command} ${word}`, '']),
    ),
    ...Object.entries(options).map(([option, { value = '', meaning }]): Entry => {
      return [`${command} --${option} ${value}`.trimEnd(), meaning]
    }),
  ])
  return [...own, ['help', 'show the commands, or the options of one'], ['version', 'show the version']]
}

// The help has them in one line: "Exit codes: 0 success, 1 failure, …".
function exitCodes(): Entry[] {
  const [, codes] = /^Exit codes: (.*?)\.?$/m.exec(generalHelp)!
  return Array.from(codes!.matchAll(/(\d) (.*?)(?:, (?=\d)|$)/g), ([, code, meaning]) => [code!, meaning!])
}

function metricEntries(): Entry[] {
  const registry = createRegistry()
  const zero = () => 0
  const log = createLog({
    renderer: 'json',
    level: 'error',
    write: zero,
    now: zero,
    colour: false,
    priorities: false,
  })
  const labels = new Map<string, string[]>()
  const { counter, histogram } = registry
  createObservers(
    log,
    {
      counter(ending, help, names = [], first) {
        labels.set(`sync_bridge_${ending}`, names)
        return counter(ending, help, names, first)
      },
      histogram(ending, help, bounds, names = []) {
        labels.set(`sync_bridge_${ending}`, names)
        return histogram(ending, help, bounds, names)
      },
    },
    null,
    zero,
  )
  const host = { now: zero, monotonicNow: zero, cpuMs: zero, residentBytes: zero, heapBytes: zero }
  addProcessMetrics(registry, host, {
    requestsInFlight: zero,
    breakers: () => [{ target: 'token', open: 0, halfOpen: 0 }],
    logLinesDropped: zero,
  })
  return registry.families().map(({ name, help, type, samples }) => {
    const [series = ''] = samples[0] ?? []
    const shown = labels.get(name) ?? Array.from(series.matchAll(/(\w+)="/g), ([, label]) => label!)
    return [shown.length === 0 ? name : `${name}{${shown.join(',')}}`, `${help} (${type})`]
  })
}

function pathEntries(): Entry[] {
  const unversioned = ['/__heartbeat__', '/__lbheartbeat__'].map((path): Entry => [`GET ${path}`, ''])
  const declared = resources.flatMap(({ method, path, schemas }): Entry[] => {
    const { summary, hide } = schemas.detail as { summary: string; hide?: true }
    if (hide) return []
    const address = `${method} /v1${path.replace('*', ':record_id')}`
    const parameters = Object.keys(schemas.query.properties)
    return [
      [address, summary],
      ...(method === 'GET' ? parameters.map((name): Entry => [`${address}?${name}`, '']) : []),
    ]
  })
  return [...declared, ...unversioned]
}

function fileEntries(): Entry[] {
  const unit = readFileSync(join(import.meta.dir, '../src/cli/systemd-unit.txt'), 'utf8')
  const credentials = Array.from(unit.matchAll(/^LoadCredential=\w+:(\S+)$/gm), ([, path]) => path!)
  return [
    [defaultSettingsFile, 'the settings of the service'],
    ...credentials.map((path): Entry => [path, 'the secret that encrypts the cache']),
  ]
}

if (import.meta.main) {
  const sections = interfaceSections()
  const problems = brokenPromises(readFileSync(interfacePath, 'utf8'), sections)
  for (const problem of problems) process.stderr.write(`${problem}\n`)
  if (problems.length > 0) process.exit(1)
  writeFileSync(interfacePath, interfacePage(sections))
}
