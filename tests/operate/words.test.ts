import { describe, expect, it } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { Glob } from 'bun'
import { usageProblem } from '../../src/cli/run.ts'

const root = join(import.meta.dir, '../..')
const read = (name: string) => readFileSync(join(root, name), 'utf8')
const pages = ['*.md', 'docs/*.md'].flatMap((pattern) => [...new Glob(pattern).scanSync(root)]).toSorted()

// Sources hold messages, comments and what generated pages say. The text of examples is what operators copy.
const sources = [
  'src/**/*.{ts,html,txt}',
  'clients/**/*.{md,py}',
  'docs/examples/**/*.{conf,cfg,caddy,py,sh,yaml,yml}',
]
  .flatMap((pattern) => [...new Glob(pattern).scanSync(root)])
  .toSorted()
/** The texts that must not contain retired terms, by their names. */
const texts: Record<string, string> = Object.fromEntries(
  [...pages, ...sources, 'docs/examples/Caddyfile'].map((name) => [name, read(name)]),
)

/** Terms that must not come back, each with what to write in its place. */
const retired: [term: RegExp, instead: string][] = [
  [/\boutweighs?\b/i, 'the field\'s term is "override"'],
  [/\bin vain\b/i, 'say what happened: timed out, failed, without a response'],
  [/\bfor want of\b/i, 'literary: "for lack of", or say what is missing'],
  [/\bwhoever\b/i, 'literary: "anyone who", "the operator", "you"'],
  [/\bsomebody\b/i, 'say who: another client, another device, someone'],
  [/\bfor ever\b/i, 'written "forever"'],
  [/\bunder way\b/i, 'the field\'s term is "in flight" or "in progress"'],
  [/\btells (its|everything)\b/i, 'the field\'s terms are "log", "report" and "list"'],
  [/\b(is|are) told (in|by)\b/i, 'link instead: "See …"'],
  [/\bin silence\b/i, 'write "silently"'],
  [/\bmust not be missed\b/i, 'the field\'s term is "high availability"'],
  [/\bhas to be watched\b/i, 'the field\'s term is "monitoring"'],
  [/\bprov(es?|ed|en) (nothing|good|who)\b/i, 'the field\'s terms are "authenticated" and "unauthenticated"'],
  [/\b(may be cured|curable)\b/i, 'the field\'s term is "retryable"'],
  [/\bseven eighths\b/i, 'fractions of fractions are hard to follow: give the number'],
  [/\bmuch as is then left\b/i, 'hard to follow: give the number'],
  [
    /\b(nobody|anybody|everybody)\b/i,
    'literary: say who, or what does not happen: "no connection", "all users"',
  ],
  [/\b(is|are|were|was) told\b/i, 'say what happens: gets, is reported, is configured'],
  [/\btells? (of|about|that|how|where|whether)\b/i, 'the field\'s terms are "say", "report" and "list"'],
  [/\bcarried out\b/i, 'the field\'s terms are "applied" for a write and "executed" for a request'],
  [/\b(answers?|answered)( with)? [1-5]\d\d\b/i, 'a server "returns" a status, a client "gets" it'],
  [/\bnever goes back\b/i, 'the field\'s term is "monotonic clock"'],
  [/\bthrows? (them |it )?away\b/i, 'Firefox "removes" a record, a client "drops" it'],
  [/\bcalled wrongly\b/i, 'the field\'s term is "usage error"'],
  [/\bdone in part\b/i, 'the field\'s term is "partial success"'],
  [/\bthe standard (input|output|error)\b/i, 'written "standard output", without an article'],
  [/\bweakness(es)?\b/i, 'the field\'s term is "vulnerability"'],
  [/\b(is|are|goes) away\b/i, 'the field\'s terms are "down" and "unreachable"'],
  [/\bhang(s|ing)? up\b/i, 'a client "disconnects"'],
  [/\bbelieve[ds]? (no|by)\b/i, 'headers are "ignored" or "trusted"'],
  [/\b(Ctrl\+C|line) ends (it|this|them)\b/i, 'an imperative: "Press Ctrl+C to stop"'],
  [/\bto begin with\b/i, 'write "initial"'],
  [/\bstrangers?\b/i, 'the field\'s terms are "unauthenticated" and "untrusted"'],
  [/\b(trailing|no) blanks?\b/i, 'the field\'s term is "space"'],
  [/\bgood for an? \w+\b/i, 'a token is "valid"'],
]

describe('the words of pages and messages', () => {
  it('contain no retired terms', () => {
    const found = Object.entries(texts).flatMap(([name, text]) =>
      retired.flatMap(([term, instead]) => {
        const match = term.exec(text.replaceAll(/\s+/g, ' '))
        return match ? [`${name}: "${match[0]}": ${instead}`] : []
      }),
    )

    expect(pages.length).toBeGreaterThan(12)
    expect(sources.length).toBeGreaterThan(150)
    expect(found).toEqual([])
  })

  it('begin with the purpose of a page, and end with where to go', () => {
    const guides = ['get-started', 'your-data', 'connect', 'backup', 'clients', 'run', 'scale']
    const others = ['troubleshooting', 'settings', 'promises']
    const names = [...guides, ...others].map((name) => `docs/${name}.md`)

    expect(names.filter((name) => !/^# .*\n\n[A-Z][^|]*?\n\n/.test(read(name)))).toEqual([])
    expect(names.filter((name) => !/\n## Where to go\n\n(?:- .*\n(?: {2}.*\n)?)+$/.test(read(name)))).toEqual(
      [],
    )
  })
})

describe('the links of the pages', () => {
  it('lead to existing files and headings', () => {
    const broken = pages.flatMap((name) =>
      Array.from(read(name).matchAll(/\]\((?!https?:)([^)]+)\)/g), ([, target]) => target!)
        .filter((target) => {
          const [path, anchor] = target.split('#')
          const linked = path === '' ? name : join(dirname(name), path!)
          if (!existsSync(join(root, linked))) return true
          return anchor !== undefined && !anchors(read(linked)).includes(anchor)
        })
        .map((target) => `${name}: ${target}`),
    )

    expect(broken).toEqual([])
  })

  it('lead to no package registry', () => {
    const links = pages.flatMap((name) => read(name).match(/https?:\/\/[^\s)"'`]+/g) ?? [])

    expect(links.filter((link) => /npmjs|pypi|crates\.io/.test(link))).toEqual([])
  })
})

describe('the commands in the pages', () => {
  it('are accepted by the executable', () => {
    const found = pages.flatMap((name) => commandsIn(read(name)).map((command) => ({ name, command })))
    const wrong = found
      .map(({ name, command }) => ({ name, command, problem: problemOf(command) }))
      .filter(({ problem }) => problem !== null)

    expect(found.length).toBeGreaterThan(40)
    expect(wrong).toEqual([])
  })
})

function anchors(text: string): string[] {
  return [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading]) =>
    heading!
      .toLowerCase()
      .replaceAll(/[^\w\s-]/g, '')
      .replaceAll(' ', '-'),
  )
}

/** The text after "sync-bridge" in code, up to shell syntax. */
function commandsIn(text: string): string[] {
  const blocks = Array.from(text.matchAll(/^```(?:sh|crontab)\n([^]*?)^```$/gm), ([, code]) => code!)
  const spans = Array.from(text.matchAll(/`(sync-bridge [^`]+)`/g), ([, code]) => code!)
  const code = [...blocks, ...spans]
    .join('\n')
    .replaceAll('\\\n', ' ')
    .replaceAll(/\d>&\d/g, '')
  return Array.from(
    code.matchAll(/(?:^|[\s/(])sync-bridge (?!sync-bridge )([a-z][^|;&#><\n)]*)/gm),
    ([, words]) => words!.trim(),
  )
}

/** Why the executable rejects this command, or null. */
function problemOf(command: string): string | null {
  const words = (command.match(/'[^']*'|"[^"]*"|\S+/g) ?? []).map((word) =>
    word.replace(/^(["'])(.*)\1$/, '$2'),
  )
  const problem = usageProblem(words.map((word) => (word === 'COMMAND' ? 'serve' : word)))
  // A page may name a command without its arguments.
  return problem?.includes('missing required argument') ? null : problem
}
