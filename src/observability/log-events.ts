/**
 * Every log event by its level: its meaning, and the fields of its line; those that may be absent end with `?`. A call with another event or
 * field does not compile. Operators search and alert by the names of events, so they stay for all of 1.x; `make pages` writes the table
 * into docs/log-events-and-metrics.md. A name is a few words; a dot stands only where a counter of statsd has the same name.
 */
export const logEvents = {
  error: {
    defect: ['a request failed because of a defect of the bridge, at these lines of code', 'reason'],
    'list.broken': [
      'a list broke off while it was sent; its request was logged as 200',
      'requestId',
      'bytes',
      'reason',
    ],
    'batch.partial': [
      'a batch was written in part and could not be undone; the line names the collections',
      'collections',
    ],
    'batch.unknown': ['it is unknown whether a write was applied; its client got a 503', 'collections'],
    'worker lost': ['a worker ended unexpectedly and is replaced', 'code', 'reason?'],
    'worker hangs': ['a worker does not respond and is replaced', 'pid', 'silentSeconds'],
    'settings refused': ['a reload found a problem in the settings', 'problem'],
    'settings kept': ['the reload failed, so the old settings remain in effect'],
    'reload failed': ['a reload failed unexpectedly; the process continues', 'reason'],
  },
  warning: {
    'upstream failed': [
      'the token server or the storage failed, and the client got a 503',
      'failure',
      'reason',
    ],
    'redis error': [
      'a command or connection failed; requests continue without Redis. Once a minute at most for each reason',
      'reason',
      'code',
      'remedy?',
    ],
    'statsd error': [
      'the host of `statsd_url` is unknown, and metrics for statsd are lost until it is found',
      'code',
      'remedy',
    ],
    'requests rejected': [
      'requests were rejected under load; once a minute at most for each reason',
      'reason',
    ],
    'log lines dropped': [
      'log lines were lost because their reader was too slow or the disk was full',
      'lines',
    ],
    'a stop can reset connections': [
      'the kernel does not move waiting connections to another instance: see [Without a gap](scale.md#without-a-gap)',
      'reason',
    ],
    'settings need a restart': ['a reload cannot apply these settings', 'settings'],
    'settings warning': ['a setting is valid but probably not intended', 'problem'],
    'the new executable needs a restart': ['the executable was replaced; a reload does not start it'],
  },
  info: {
    listening: [
      'the service listens at this address',
      'url',
      'workers',
      'docs?',
      'guides?',
      'explorer?',
      'metrics?',
    ],
    stopping: ['the service stops and finishes the requests in flight', 'graceSeconds'],
    stopped: ['the service has stopped'],
    request: [
      'a request was answered; at level debug for health checks, metrics and pages',
      'method',
      'route',
      'status',
      'errno',
      'ms',
      'bytes',
      'upstreamCalls?',
      'upstreamMs?',
      'upstreamStatus?',
      'cached?',
      'requestId',
      'userAgent',
    ],
    'settings reloaded': ['a reload was applied', 'changed'],
  },
  debug: {
    'sub-request': ['one request of a batch was answered', 'index', 'method', 'status', 'errno'],
    upstream: [
      'a call to the token server or the storage ended',
      'target',
      'method',
      'status',
      'failure',
      'ms',
    ],
    'batch.read-only': ['a batch wrote nothing', 'collections'],
    'batch.committed': ['a batch was written', 'collections'],
    'batch.moved-round': [
      'another client wrote between snapshot and commit, so the batch starts again',
      'collections',
    ],
    'batch.probed': [
      'the response to a write was lost, so a snapshot shows whether it was applied',
      'collections',
    ],
    'batch.undone': ['a batch failed, and what was visible of it was undone', 'collections'],
    'not notified': ['systemd could not be notified', 'reason'],
  },
} as const

type EventsByLevel = typeof logEvents
type Events = UnionToIntersection<EventsByLevel[keyof EventsByLevel]>
type UnionToIntersection<Union> = (Union extends unknown ? (of: Union) => void : never) extends (
  of: infer Intersection,
) => void
  ? Intersection
  : never

export type LogEvent = keyof Events
export type LogValue = string | number | boolean | null | undefined

/** The names of an event's fields, as in the table. */
type FieldOf<Event extends LogEvent> = Events[Event] extends readonly [
  string,
  ...infer Fields extends string[],
]
  ? Fields[number]
  : never

/** The fields of an event's line; undefined ones are left out. */
export type LogFields<Event extends LogEvent> = {
  [Field in FieldOf<Event> as Field extends `${string}?` ? never : Field]: LogValue
} & {
  [Field in FieldOf<Event> as Field extends `${infer Name}?` ? Name : never]?: LogValue
}
