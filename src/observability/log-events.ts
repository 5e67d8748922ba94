/**
 * Every log event by its level, with its meaning. Operators search and alert by these names, so they stay for all of 1.x; `make promises`
 * writes them into docs/log-events-and-metrics.md.
 */
export const logEvents = {
  error: {
    defect: 'a request failed because of a defect of the bridge, at these lines of code',
    'list.broken': 'a list broke off while it was sent; its request was logged as 200',
    'batch.partial': 'a batch was written in part and could not be undone; the line names the collections',
    'batch.unknown': 'it is unknown whether a write was applied; its client got a 503',
    'worker lost': 'a worker ended unexpectedly and is replaced',
    'worker hangs': 'a worker does not respond and is replaced',
    'settings refused': 'a reload found a problem in the settings',
    'settings kept': 'the reload failed, so the old settings remain in effect',
    'reload failed': 'a reload failed unexpectedly; the process continues',
  },
  warning: {
    'upstream failed': 'the token server or the storage failed, and the client got a 503',
    'redis error':
      'a command or connection failed; requests continue without Redis. Once a minute at most for each reason',
    'statsd error': 'the host of `statsd_url` is unknown, and metrics for statsd are lost until it is found',
    'load shed': 'requests were rejected under load; once a minute at most for each reason',
    'log lines dropped': 'log lines were lost because their reader was too slow or the disk was full',
    'a stop can reset connections':
      'the kernel does not move waiting connections to another instance: see [Without a gap](scale.md#without-a-gap)',
    'settings need a restart': 'a reload cannot apply these settings',
    'settings warning': 'a setting is valid but probably not intended',
    'the new executable needs a restart': 'the executable was replaced; a reload does not start it',
  },
  info: {
    listening: 'the service listens at this address',
    stopping: 'the service stops and finishes the requests in flight',
    stopped: 'the service has stopped',
    request: 'a request was answered; at level debug for health checks, metrics and pages',
    'settings reloaded': 'a reload was applied',
  },
  debug: {
    'sub-request': 'one request of a batch was answered',
    upstream: 'a call to the token server or the storage ended',
    'batch.read-only': 'a batch wrote nothing',
    'batch.committed': 'a batch was written',
    'batch.moved-round': 'another client wrote between snapshot and commit, so the batch starts again',
    'batch.probed': 'the response to a write was lost, so a snapshot shows whether it was applied',
    'batch.undone': 'a batch failed, and what was visible of it was undone',
    'not notified': 'systemd could not be notified',
  },
} as const

type EventsByLevel = typeof logEvents
export type LogEvent = { [Level in keyof EventsByLevel]: keyof EventsByLevel[Level] }[keyof EventsByLevel]
