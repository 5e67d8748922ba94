/**
 * Every log event, with its meaning. Operators search and alert by these names, so they stay for all of 1.x; `make promises` writes them
 * into docs/interface.md.
 */
export const logEvents = {
  listening: 'the service listens at this address',
  stopping: 'the service stops and finishes the requests in flight',
  stopped: 'the service has stopped',
  request: 'a request was answered',
  'sub-request': 'one request of a batch was answered',
  upstream: 'a call to the token server or the storage ended',
  'upstream failed': 'the token server or the storage failed, and the client got a 503',
  'circuit breaker opened': 'a host fails for several users, and gets only trial calls',
  'circuit breaker closed': 'the host responds again',
  'redis error': 'Redis failed; requests continue without it',
  'load shed': 'requests were rejected under load',
  defect: 'a request failed because of a defect of the bridge',
  'list.broken': 'a list broke off after its start was sent',
  'batch.read-only': 'a batch wrote nothing',
  'batch.committed': 'a batch was written',
  'batch.moved-round': 'another client wrote between snapshot and commit, so the batch starts again',
  'batch.probed': 'the response to a write was lost, so a snapshot shows whether it was applied',
  'batch.undone': 'a batch failed, and what was visible of it was undone',
  'batch.partial': 'a batch was written in part and could not be undone',
  'batch.unknown': 'it is unknown whether a write was applied',
  'batch.unremoved': 'rows of deleted records are still in the storage',
  'worker lost': 'a worker ended unexpectedly and is replaced',
  'worker hangs': 'a worker does not respond and is replaced',
  'log lines dropped': 'log lines were lost because their reader was too slow',
  'not notified': 'systemd could not be notified',
  'taking over can reset connections': 'the kernel does not move waiting connections to the new process',
  'starting a successor': 'a new process is started to take over',
  'taken over': 'the new process serves requests, and this one ends',
  'takeover failed': 'the new process failed to listen, and this one continues',
  'settings reloaded': 'a reload was applied',
  'settings need a restart': 'a reload cannot apply some of the changes',
  'settings warning': 'a setting is valid but probably not intended',
  'settings refused': 'a reload found a problem in the settings',
  'settings kept': 'the reload failed, so the old settings remain in effect',
  'a change is in progress already': 'a reload or takeover was requested during another one',
  'change failed': 'a reload or takeover failed unexpectedly',
} as const

export type LogEvent = keyof typeof logEvents
