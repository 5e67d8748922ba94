/**
 * Every event that the log has, with what it says. Operators search and alert by these names, so they stay for all of 1.x:
 * `make promises` writes them into docs/interface.md.
 */
export const logEvents = {
  listening: 'the service answers, at this address',
  stopping: 'the service ends, and answers the requests in flight first',
  stopped: 'the service has ended',
  request: 'a request was answered',
  'sub-request': 'one request of a batch was answered',
  upstream: 'a call to the token server or the storage has ended',
  'upstream failed': 'the token server or the storage failed, and the client got a 503',
  'circuit breaker opened':
    'a host is down for several users, and is called only to see whether it answers again',
  'circuit breaker closed': 'the host answers again',
  'redis error': 'Redis failed; requests go on',
  'load shed': 'requests were rejected because of the load',
  defect: 'a request met a defect of the bridge',
  'list.broken': 'a list broke off after its beginning was sent',
  'batch.read-only': 'a batch wrote nothing',
  'batch.committed': 'a batch was written',
  'batch.moved-round': 'another client wrote between snapshot and commit, and the batch starts again',
  'batch.probed': 'a write without an answer was looked at',
  'batch.undone': 'a batch failed, and what was visible of it was undone',
  'batch.partial': 'a batch was written in part and could not be undone',
  'batch.unknown': 'nobody can tell whether a write was applied',
  'batch.unremoved': 'rows of deleted records are still in the storage',
  'worker lost': 'a worker ended by itself, and is replaced',
  'worker hangs': 'a worker does not answer, and is replaced',
  'log lines dropped': 'the reader of the log was too slow for some lines',
  'not notified': 'systemd could not be told of a change',
  'taking over can reset connections': 'the kernel does not move waiting connections to a new process',
  'starting a successor': 'a new process is to take over',
  'taken over': 'the new process answers, and this one ends',
  'takeover failed': 'the new process did not start to listen, and this one goes on',
  'settings reloaded': 'a reload was applied',
  'settings need a restart': 'a reload cannot apply some of the changes',
  'settings warning': 'a setting is allowed, but seldom meant',
  'settings refused': 'a reload found a problem in the settings',
  'settings kept': 'the reload failed, and the old settings stay',
  'a change is in progress already': 'a reload or takeover was asked for during another one',
  'change failed': 'a reload or takeover met an unexpected error',
} as const

export type LogEvent = keyof typeof logEvents
