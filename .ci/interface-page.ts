// `make pages` writes two pages from the code: every name that 1.x keeps, and among them the log events and metrics. It fails if the
// code lacks a name that a page has, because that would break alerts, scripts or settings.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'

import { exitCodes, placeholderOf } from '../src/cli/command.ts'
import { accountPath } from '../src/cli/data/account-file.ts'
import { createProgram } from '../src/cli/run.ts'
import { defaultSettingsFile } from '../src/cli/service/systemd-unit.ts'
import { formatAccount } from '../src/client/account.ts'
import { createLog } from '../src/observability/log.ts'
import { logEvents } from '../src/observability/log-events.ts'
import { commonOptions, isCommon } from './commands-page.ts'
import { createRegistry } from '../src/observability/registry.ts'
import { resources } from '../src/protocol/find.ts'
import { createObservers } from '../src/service/observers.ts'
import { addProcessMetrics } from '../src/service/process-metrics.ts'
import { collectionSettings, removedSettings, settingsSchema } from '../src/settings/schema.ts'

/** A name with its meaning, which may be empty, and what stands between them, such as its kind. */
type Entry = [name: string, meaning: string, between?: string]

export interface Section {
  title: string
  /** A word for one of its names in a sentence. */
  kind: string
  note?: string
  entries: Entry[]
}

export interface Page {
  path: string
  introduction: string
  sections: Section[]
  conclusion: string
}

const ofInterface = `# What 1.x keeps

Every name that settings files, scripts, alerts and clients can depend on, besides [log events and metrics](log-events-and-metrics.md). Within
1.x, none is removed or renamed, or changes its meaning. Any release may add new ones; ignore unknown ones. Everything else may change, such as
texts for people, fields of log lines and the order of lists.
`

const ofEvents = `# Log events and metrics

What a bridge reports while it runs. Alerts and searches can rely on these names: 1.x keeps them all, and may add new ones.
`

/** All promised names, according to the code. */
export function interfacePages(): Page[] {
  const path = (name: string) => join(import.meta.dir, '../docs', name)
  return [
    {
      path: path('interface.md'),
      introduction: ofInterface,
      sections: nameSections(),
      conclusion: httpNotes,
    },
    {
      path: path('log-events-and-metrics.md'),
      introduction: ofEvents,
      sections: [
        {
          title: 'Log events',
          kind: 'log event',
          note: 'The `event` of a line, with its level and fields. Every line also has `time`, `level` and `event`. 1.x may add or change the other fields.',
          entries: eventEntries(),
        },
        {
          title: 'Metrics',
          kind: 'metric',
          note: 'With their labels, in the format of Prometheus, summed over all workers.',
          entries: metricEntries(),
        },
      ],
      conclusion: `
## Where to go

- [What to do about an alert, and how to search the log](run.md#monitor)
- [What to do about a line of the log](troubleshooting.md)
`,
    },
  ]
}

function nameSections(): Section[] {
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
    {
      title: 'Commands',
      kind: 'command',
      note: '[commands.md](commands.md) has their meanings.',
      entries: commandEntries(),
    },
    {
      title: 'Options of several commands',
      kind: 'option',
      entries: commonOptions().flatMap(({ short, long }) => namesOf([short, long])),
    },
    { title: 'Exit codes', kind: 'exit code', entries: Object.entries(exitCodes) },
    {
      title: 'Environment',
      kind: 'variable',
      note: 'For the commands that read and write your own data.',
      entries: environmentEntries(),
    },
    {
      title: 'Paths',
      kind: 'path',
      note: 'The number after `/v` is that of `http_api_version`. HEAD is answered wherever GET is.',
      entries: pathEntries(),
    },
    { title: 'Files', kind: 'file', entries: fileEntries() },
    {
      title: 'The account file',
      kind: 'line of the account file',
      note: 'Lines `NAME=value`, which `connect` writes. [connect.md](connect.md) says where the values come from.',
      entries: accountLines(),
    },
  ]
}

/** What HTTP allows and this service does not. */
const httpNotes = `
## HTTP

- Malformed HTTP gets 400, 413, 431 or 505, without a body.
- Pipelining is not supported. A client that closes its sending side after the request (\`nc -N\`) gets no response.
`

/** A page as Markdown. */
export function textOf({ introduction, sections, conclusion }: Page): string {
  const texts = sections.map(({ title, note, entries }) => {
    const names = entries.some(([, meaning]) => meaning) ? listOf(entries) : linesOf(entries)
    return `## ${title}\n\n${note === undefined ? '' : `${note}\n\n`}${names}`
  })
  return [introduction, ...texts].join('\n') + conclusion
}

function listOf(entries: Entry[]): string {
  return entries
    .map(([name, meaning, between = '']) => `- \`${name}\`${between}${meaning && `: ${meaning}`}\n`)
    .join('')
}

/** Names without a meaning: the options of a command on one line, all others on another one. */
function linesOf(entries: Entry[]): string {
  const hasCommands = entries.some(([name]) => name.includes(' '))
  const groups = Map.groupBy(entries, ([name]) => (hasCommands ? name.split(' ')[0]! : ''))
  const lines = Array.from(groups.values(), (group) => group.map(([name]) => `\`${name}\``).join(', '))
  return lines.map((line) => `${line}\n`).join('\n')
}

/** A sentence for each name that is in the text of a page but not in its sections: what happened, and what to do. */
export function brokenPromises(text: string, { path, sections }: Pick<Page, 'path' | 'sections'>): string[] {
  return sections.flatMap(({ title, kind, entries }) => {
    const names = new Set(entries.map(([name]) => name))
    const [, after = ''] = text.split(`\n## ${title}\n`)
    const [own] = after.split('\n## ')
    const listed = own!.matchAll(/^- `([^`]+)`/gm)
    const inLines = (own!.match(/^`.*$/gm) ?? []).flatMap((line) => [...line.matchAll(/`([^`]+)`/g)])
    const promised = Array.from([...listed, ...inLines], ([, name]) => name!)
    return promised
      .filter((name) => !names.has(name) && !(kind === 'setting' && removedSettings.has(name)))
      .map(
        (name) =>
          `1.x promises the ${kind} "${name}", and the code no longer has it: ${remedyFor(kind, path)}`,
      )
  })
}

function remedyFor(kind: string, path: string): string {
  return kind === 'setting'
    ? 'bring it back, or add it to removedSettings in src/settings/schema.ts, so that a start warns of it'
    : `bring it back, or delete its line from docs/${basename(path)}: if a release had it, say so in CHANGELOG.md, and release 2.0`
}

function commandEntries(): Entry[] {
  const own = createProgram().commands.flatMap((command): Entry[] => {
    const name = command.name()
    return [
      [name, ''],
      ...command.registeredArguments.flatMap((argument) =>
        (argument.argChoices ?? [argument.name()]).map((word): Entry => [`${name} ${word}`, '']),
      ),
      ...command.options
        .filter((option) => !isCommon(option))
        .flatMap((option) =>
          namesOf([option.short, `${option.long} ${placeholderOf(option)}`.trimEnd()]).map(
            ([word]): Entry => [`${name} ${word}`, ''],
          ),
        ),
    ]
  })
  return [...own, ...namesOf(['help', 'version'])]
}

function namesOf(names: (string | undefined)[]): Entry[] {
  return names.filter((name) => name !== undefined).map((name) => [name, ''])
}

function eventEntries(): Entry[] {
  return Object.entries(logEvents).flatMap(([level, events]) =>
    Object.entries(events).map(
      ([name, [meaning, ...fields]]: [string, readonly [string, ...string[]]]): Entry => {
        const shown = fields.map((field) => `, \`${field.replace('?', '')}\``).join('')
        return [name, meaning, ` (${level}${shown})`]
      },
    ),
  )
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
    logLinesDropped: zero,
  })
  return registry.families().map(({ name, help, type, samples }) => {
    const [series = ''] = samples[0] ?? []
    const shown = labels.get(name) ?? Array.from(series.matchAll(/(\w+)="/g), ([, label]) => label!)
    return [shown.length === 0 ? name : `${name}{${shown.join(',')}}`, help, ` (${type})`]
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

const variables: Record<string, string> = {
  SYNC_BRIDGE_ACCOUNT: 'the account file, instead of `--account`',
}

// The help mentions them in its texts.
function environmentEntries(): Entry[] {
  const helps = createProgram()
    .commands.flatMap((command) => [
      command.description(),
      ...command.options.map(({ description }) => description),
    ])
    .join()
  return [...new Set(helps.match(/\b(?!SERVICE_)[A-Z]+(?:_[A-Z]+)+\b/g))].map((name) => {
    const meaning = variables[name]
    if (meaning === undefined)
      throw new Error(`variables in .ci/interface-page.ts lack a meaning of "${name}"`)
    return [name, meaning]
  })
}

// Their meanings are in docs/connect.md.
function accountLines(): Entry[] {
  const anything = new Proxy({}, { get: () => 'x' })
  return Array.from(formatAccount(anything).matchAll(/^(\w+)=/gm), ([, name]) => [name!, ''])
}

function fileEntries(): Entry[] {
  const unit = readFileSync(join(import.meta.dir, '../src/cli/service/systemd-unit.txt'), 'utf8')
  const credentials = Array.from(unit.matchAll(/^LoadCredential=\w+:(\S+)$/gm), ([, path]) => path!)
  return [
    [defaultSettingsFile, 'the settings of the service'],
    ...credentials.map((path): Entry => [path, 'the secret that encrypts the cache']),
    [
      accountPath(undefined, { environment: { HOME: '~' } }),
      'your account; `$XDG_CONFIG_HOME` replaces `~/.config`',
    ],
  ]
}

if (import.meta.main) {
  const pages = interfacePages()
  const problems = pages.flatMap((page) =>
    brokenPromises(existsSync(page.path) ? readFileSync(page.path, 'utf8') : '', page),
  )
  for (const problem of problems) process.stderr.write(`${problem}\n`)
  if (problems.length > 0) process.exit(1)
  for (const page of pages) writeFileSync(page.path, textOf(page))
}
