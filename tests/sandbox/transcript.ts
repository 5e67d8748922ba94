import type { ServerKind } from '../support/dialects.ts'

/**
 * Conversations with a storage as text, to send the same requests to the sandbox and to a real server.
 *
 *     == title · postgres mysql
 *     with {"quotaKilobytes":1}
 *     PUT tabs/a [X-If-Unmodified-Since: 0] {"payload":"x"} -> 200 @1 @1
 *     +0 GET tabs?full -> 200 @1 [X-Weave-Records: 1] [{"id":"a","modified":@1,"payload":"x"}]
 *
 * First come the servers that respond like this (default: PostgreSQL), and the sandbox's options. A target without a leading slash is below
 * `/storage/`; `.` is the user's root. A response has a status, X-Last-Modified (`-`: none), headers (`-`: none) and a body. `@2` is the
 * time of the second request; 10 ms pass before each, or the given number. `…` stands for any text, `<x*9>` for nine times x, `⏎` for a
 * line feed, and `$B` for the id of the batch.
 */
interface Conversation {
  title: string
  servers: readonly ServerKind[]
  options: Record<string, unknown>
  turns: Turn[]
}

interface Turn extends Question {
  line: string
  wanted: { status: number; modified: string; headers: Record<string, string>; body: string }
}

export interface Question {
  /** The time that passes before the request. */
  pauseMs: number
  method: string
  path: string
  headers: Record<string, string>
  body: string | undefined
}

export interface Told {
  status: number
  headers: Headers
  text: string
  /** When the request was sent or its write was stored, in seconds as on the wire. */
  time: string
}

export function readConversations(text: string): Conversation[] {
  const blocks = text.split(/^== /m).slice(1)
  return blocks.map((block) => {
    const [head = '', ...lines] = block.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
    const [title = '', servers = 'postgres'] = head.split(' · ')
    const options = lines[0]?.startsWith('with ') ? lines.shift()!.slice(5) : '{}'
    const known = servers.split(' ') as ServerKind[]
    return {
      title,
      servers: known,
      options: JSON.parse(expand(options)) as Record<string, unknown>,
      turns: lines.map(readTurn),
    }
  })
}

const request = /^(?:\+(\d+) )?([A-Z]+)(?: (?!\[)(\S+))((?: \[[\w-]+: [^\]]*\])*)(?: (.+))?$/
const answer = /^(\d{3})(?: (\S+))?((?: \[[\w-]+: [^\]]*\])*)(?: (.+))?$/

function readTurn(line: string): Turn {
  const [asked = '', told = ''] = line.split(' -> ')
  const question = request.exec(asked)
  const wanted = answer.exec(told)
  if (!question || !wanted) throw new Error(`Cannot read "${line}"`)
  const [, pause = '10', method = '', target = '', headers = '', body] = question
  const [, status, modified = '-', wantedHeaders = '', wantedBody = ''] = wanted
  const path = target.startsWith('/') ? target : target === '.' ? '' : `/storage/${target}`
  return {
    line,
    pauseMs: Number(pause),
    method,
    path,
    headers: readHeaders(headers),
    body,
    wanted: { status: Number(status), modified, headers: readHeaders(wantedHeaders), body: wantedBody },
  }
}

function readHeaders(text: string): Record<string, string> {
  return Object.fromEntries(
    [...text.matchAll(/\[([^:]+): ([^\]]*)\]/g)].map(([, name, value]) => [name!, value!]),
  )
}

/** Runs a conversation; returns the actual and the expected responses in the same form. */
export async function converse(
  { turns }: Conversation,
  ask: (question: Question) => Promise<Told>,
): Promise<{ told: string[]; wanted: string[] }> {
  const times: string[] = []
  let batch = ''
  const told: string[] = []
  const wanted: string[] = []
  const fill = (text: string) =>
    expand(
      text.replaceAll(/@(\d+)/g, (_, turn: string) => times[Number(turn) - 1] ?? '').replaceAll('$B', batch),
    )
  for (const turn of turns) {
    const isUpload = turn.method === 'PUT' || turn.method === 'POST'
    const type: Record<string, string> =
      isUpload && turn.headers['Content-Type'] === undefined ? { 'Content-Type': 'application/json' } : {}
    const given = Object.entries({ ...type, ...turn.headers }).filter(([, value]) => value !== 'none')
    const headers = Object.fromEntries(given.map(([name, value]) => [name, fill(value)]))
    const path = fill(turn.path.replaceAll('$B', encodeURIComponent(batch)))
    const body = turn.body === undefined ? undefined : fill(turn.body)
    const { method, pauseMs } = turn
    const { status, headers: seen, text, time } = await ask({ pauseMs, method, path, headers, body })
    times.push(time)
    if (!turn.path.includes('$B')) batch = /"batch":"([^"]+)"/.exec(text)?.[1] ?? batch
    const names = Object.keys(turn.wanted.headers)
    const stamp = (value: string | null) => value ?? '-'
    told.push(
      line(
        turn,
        status,
        stamp(seen.get('X-Last-Modified')),
        names.map((name) => stamp(seen.get(name))),
        canonical(text),
      ),
    )
    wanted.push(
      line(
        turn,
        turn.wanted.status,
        fill(turn.wanted.modified),
        names.map((name) => fill(turn.wanted.headers[name]!)),
        canonical(fill(turn.wanted.body)),
      ),
    )
    // Any text is accepted there.
    const pattern = wanted.at(-1)!.split('…').map(RegExp.escape).join('[^]*')
    if (new RegExp(`^${pattern}$`).test(told.at(-1)!)) wanted[wanted.length - 1] = told.at(-1)!
  }
  return { told, wanted }
}

function line({ line: asked }: Turn, ...parts: (number | string | string[])[]): string {
  return `${asked.split(' -> ')[0]} -> ${parts.flat().join(' ')}`
}

function expand(text: string): string {
  return text
    .replaceAll(/<(.+?)\*(\d+)>/g, (_, part: string, count: string) => part.repeat(Number(count)))
    .replaceAll('⏎', '\n')
}

/** JSON with ordered members and numbers as written; anything else unchanged. */
function canonical(text: string): string {
  try {
    const value: unknown = JSON.parse(text, (_key, each: unknown, context?: { source?: string }) =>
      typeof each === 'number' ? `#${context?.source ?? ''}` : sorted(each),
    )
    return JSON.stringify(value)
  } catch {
    return text
  }
}

function sorted(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
}
