import { isReadable, type SyncRecord } from '../../client/collection.ts'
import { ClientError } from '../../client/errors.ts'
import { Argument, oneOf, UsageError, type CommandFactory } from '../command.ts'
import { codeOf, showOrMake } from './change.ts'
import { describeAccountCommand, noUndoOption } from './options.ts'
import { withAccount } from './session.ts'
import { readPastedLines } from './terminal.ts'
import type { Host } from '../host.ts'

const changeable = ['passwords']

export const setCommand: CommandFactory = (perform) =>
  describeAccountCommand(
    'set',
    'show how a login would change; with --write, change it on all devices',
    `A password is never an argument, which other users of the machine could see. "sync-bridge ls passwords" shows the ids.`,
  )
    .addArgument(
      new Argument('<COLLECTION>', 'where to change').choices(changeable).argParser(oneOf(changeable)),
    )
    .argument('<ID>', 'the id of the login')
    .option('--username <NAME>', 'its new user name')
    .option('--password-stdin', 'read its new password from the terminal or standard input')
    .option('--write', 'change it')
    .addOption(noUndoOption)
    .action(
      perform((host, collection, id, options) => {
        const { username, passwordStdin = false, write = false, undo, ...given } = options
        if (username === undefined && !passwordStdin)
          throw new UsageError('Nothing to change: add --username or --password-stdin')
        return withAccount(given, host, { writes: write ? [collection] : [] }, async (session) => {
          const password = passwordStdin ? await readPassword(host) : undefined
          const records: SyncRecord[] = []
          for await (const record of session.client.collection(collection).records({ ids: [id] }))
            records.push(record)
          const login = records.find(isReadable)
          if (!login) throw new ClientError(`There is no login ${JSON.stringify(id)} in ${collection}`)
          const fields = {
            ...(username !== undefined && { username }),
            // Firefox keeps the password that was changed last. The same one is no change, such as after an interruption.
            ...(password !== undefined &&
              password !== login.clear.password && { password, timePasswordChanged: host.now() }),
          }
          const change = {
            collection,
            edits: [{ op: 'change' as const, id, fields }],
            shown: records,
            now: records,
          }
          const { isWhole } = await showOrMake(session, change, { command: 'set', write, hasUndo: undo })
          return codeOf(isWhole)
        })
      }),
    )

/** Reads one line, without the line break. */
async function readPassword(host: Host): Promise<string> {
  const text = await readPastedLines(
    host,
    () => void host.stderr.write('New password (not shown): '),
    () => true,
  )
  const password = text?.replace(/\r?\n$/, '') ?? ''
  if (password === '') throw new ClientError('Nothing was changed: the password is empty')
  // Such as an arrow key that was pressed to correct it.
  if (/[^\P{Cc}\n]/u.test(password))
    throw new ClientError('Nothing was changed: the password has a control character')
  if (password.includes('\n')) throw new ClientError('Nothing was changed: the password has several lines')
  return password
}
