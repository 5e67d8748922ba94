import { annotatedIni } from '../../settings/settings-text.ts'
import { describeCommand, type CommandFactory } from '../command.ts'
import { print } from '../output.ts'

export const initCommand: CommandFactory = (perform) =>
  describeCommand(
    'init',
    'print an initial settings file with a new secret',
    'You only have to add the address of the token server.',
  ).action(perform((host) => print(host, annotatedIni(host.randomBytes(32).toHex())), { connections: false }))
