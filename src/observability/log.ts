import type { LogEvent, LogFields, LogValue } from './log-events.ts'

/** The journal priority of each level, see sd-daemon(3), and its colour in a terminal. */
const levels = {
  debug: { priority: 7, colour: 90 },
  info: { priority: 6, colour: 32 },
  warning: { priority: 4, colour: 33 },
  error: { priority: 3, colour: 31 },
}

type LogLevel = keyof typeof levels
type Logger = <Event extends LogEvent>(event: Event, ...fields: FieldsArgument<Event>) => void
/** Only an event without fields needs no argument for them. */
type FieldsArgument<Event extends LogEvent> =
  Record<string, never> extends LogFields<Event> ? [fields?: LogFields<Event>] : [fields: LogFields<Event>]
type Fields = Record<string, LogValue>

/** Writes each event as exactly one line, whatever the values of its fields are. Values are truncated to 256 characters. */
export interface Log extends Record<LogLevel, Logger> {
  /** Lowest level to write. A reload changes it. */
  level: LogLevel
}

export interface LogOptions {
  renderer: 'json' | 'text'
  level: LogLevel
  /** Writes one line, given without a line break. */
  write(line: string): void
  /** Wall clock, ms since 1970. */
  now(): number
  /** Whether to colour text; JSON is never coloured. */
  colour: boolean
  /** Whether each line starts with its priority, `<3>` to `<7>`, for the systemd journal; see sd-daemon(3). */
  priorities: boolean
}

/** Creates a log of events: JSON with `time`, `level`, `event` and the fields, or text for people. */
export function createLog({ renderer, level, write, now, colour, priorities }: LogOptions): Log {
  const logger =
    (own: LogLevel): Logger =>
    (event, fields: Fields = {}) => {
      if (!isLogged(log, own)) return
      const time = new Date(now()).toISOString()
      const line =
        renderer === 'json' ? renderJson(time, own, event, fields) : asText(time, own, event, fields)
      write(priorities ? `<${levels[own].priority}>${line}` : line)
    }
  const paint = (code: number, text: string) => (colour ? `\x1b[${code}m${text}\x1b[0m` : text)
  const asText = (time: string, own: LogLevel, event: LogEvent, fields: Fields) => {
    const pairs = Object.entries(fields)
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => `${paint(36, name)}=${plain(value)}`)
    return [paint(90, time), paint(levels[own].colour, own.padEnd(7)), event, ...pairs].join(' ')
  }
  const log: Log = {
    level,
    debug: logger('debug'),
    info: logger('info'),
    warning: logger('warning'),
    error: logger('error'),
  }
  return log
}

/** Whether events of a level are written; check it before collecting expensive fields. */
export function isLogged(log: Pick<Log, 'level'>, level: LogLevel): boolean {
  return levels[level].priority <= levels[log.level].priority
}

/** Maximum length of a value; longer ones are truncated. */
const maxValueLength = 256

function renderJson(time: string, level: LogLevel, event: LogEvent, fields: Fields): string {
  const line: Fields = { time, level, event }
  for (const [name, value] of Object.entries(fields)) {
    line[name] = typeof value === 'string' ? truncate(value, maxValueLength) : value
  }
  return escapeInvisible(JSON.stringify(line))
}

/** Formats a value, quoted if it could be misread. */
function plain(value: LogValue): string {
  if (typeof value !== 'string') return String(value)
  return /^[\w./:@+*%,;?&~<>()[\]{}$-]{1,256}$/.test(value) ? value : quoteText(value, maxValueLength)
}

/**
 * Quotes a text as JSON does, truncated to `maxLength`, and also escapes characters that end the line, move the cursor or change the writing
 * direction.
 */
export function quoteText(text: string, maxLength: number): string {
  return escapeInvisible(JSON.stringify(truncate(text, maxLength)))
}

/** Truncates a longer text and adds an ellipsis. */
function truncate(text: string, maxLength: number): string {
  return text.length > maxLength ? `${text.slice(0, maxLength)}…` : text
}

const invisible = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu

/** Escapes control and format characters and line separators; for text inside JSON strings. */
function escapeInvisible(json: string): string {
  const escape = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
  return json.replace(invisible, (character) => character.split('').map(escape).join(''))
}
