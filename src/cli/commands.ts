import { completionCommand } from './completion.ts'
import { addCommand } from './data/add.ts'
import { backupCommand } from './data/backup.ts'
import { connectCommand, disconnectCommand } from './data/connect.ts'
import { editCommand } from './data/edit.ts'
import { exportCommand } from './data/export.ts'
import { lsCommand } from './data/ls.ts'
import { openCommand } from './data/open.ts'
import { restoreCommand } from './data/restore.ts'
import { rmCommand } from './data/rm.ts'
import { setCommand } from './data/set.ts'
import { undoCommand } from './data/undo.ts'
import { watchCommand } from './data/watch.ts'
import { checkCommand, probe } from './service/check.ts'
import { healthcheckCommand } from './service/healthcheck.ts'
import { initCommand } from './service/init.ts'
import { sandbox, sandboxCommand } from './service/sandbox.ts'
import { serve, serveCommand } from './service/serve.ts'
import { systemdUnitCommand } from './service/systemd-unit.ts'
import type { CommandFactory } from './command.ts'

/** What starts servers or asks others; tests replace it. */
export type Programs = typeof realPrograms

const realPrograms = { serve, sandbox, probe }

/** Every command by group, in the order in which help and pages show them. */
export function commandsByGroup(programs = realPrograms) {
  return {
    'Your own data': [
      connectCommand,
      lsCommand,
      exportCommand,
      backupCommand,
      restoreCommand,
      addCommand,
      editCommand,
      rmCommand,
      setCommand,
      undoCommand,
      watchCommand,
      openCommand,
      disconnectCommand,
    ],
    'A service for others': [
      serveCommand(programs.serve),
      sandboxCommand(programs.sandbox),
      checkCommand(programs.probe),
      initCommand,
      systemdUnitCommand,
      healthcheckCommand,
    ],
    Shells: [completionCommand],
  } satisfies Record<string, CommandFactory[]>
}
