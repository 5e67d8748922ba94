import { CommanderError, Command } from '@commander-js/extra-typings'
import { ClientError } from '../client/errors.ts'
import { printable } from '../client/safe-text.ts'
import { adviceFor } from './advice.ts'
import { commit, name, version } from '../version.ts'
import { exitCodes, UsageError, type AnyCommand, type Perform } from './command.ts'
import { commandsByGroup, type Programs } from './commands.ts'
import { print } from './output.ts'
import { scrubEnvironment } from './service/load-settings.ts'
import type { Host } from './host.ts'

/** The whole program as a function of the arguments after the program's name and of the operating system. Returns the exit code. */
export async function run(args: string[], host: Host, programs?: Programs): Promise<number> {
  let shown = ''
  let code = 0
  const perform: Perform =
    (handler, { connections } = { connections: true }) =>
    async (...given) => {
      const { problems, ...removed } = scrubEnvironment(connections ? host.environment : {})
      for (const problem of problems) host.stderr.write(`${problem}\n`)
      code = problems.length > 0 ? 2 : await handler({ ...host, ...removed }, ...given)
    }
  const program = createProgram({
    perform,
    programs,
    writeOut: (text) => void (shown += text),
    writeErr: (text) => void host.stderr.write(text),
  })
  try {
    await program.parseAsync(spelledOut(args, program), { from: 'user' })
    return code
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? finish(print(host, shown), host) : 2
    return finish(Promise.reject(error), host)
  }
}

/** The exit code of what a command did; prints an error that is meant for users. */
async function finish(done: Promise<number>, { stderr }: Host): Promise<number> {
  try {
    return await done
  } catch (error) {
    if (!(error instanceof ClientError)) throw error
    stderr.write(`${name}: ${printable(error.message)}${adviceFor(error)}\n`)
    return 1
  }
}

interface Surroundings {
  perform: Perform
  programs?: Programs
  /** Take help and error messages. */
  writeOut(text: string): void
  writeErr(text: string): void
}

const nothing: Surroundings = { perform: () => async () => {}, writeOut() {}, writeErr() {} }

/** The commands and options of the program; by default, its commands do nothing. */
export function createProgram({ perform, programs, writeOut, writeErr }: Surroundings = nothing): AnyCommand {
  const program = new Command(name)
    .description('Reads, exports, backs up, restores and edits what Firefox Sync stores for you.')
    .usage('COMMAND [options]')
    .version(`${name} ${version} (commit ${commit})`, '-V, --version', 'show the version')
    .helpOption('-h, --help', 'show the commands; after a command, its options')
    .helpCommand(false)
    .showHelpAfterError(`Try "${name} --help".`)
    .exitOverride()
    .configureOutput({
      writeOut,
      writeErr,
      outputError: (text, write) => write(`${name}: ${inOneLine(text)}\n`),
    })
    .configureHelp({
      optionDescription: describeOption,
      argumentDescription: describeArgument,
      subcommandTerm: (command) => command.name(),
    })
    .addHelpText('after', afterHelp)
  for (const [group, factories] of Object.entries(commandsByGroup(programs))) {
    for (const create of factories) {
      const command = create(withUsageErrors(perform)).helpGroup(`${group}:`)
      command
        .copyInheritedSettings(program)
        .helpOption('-h, --help', 'show this')
        .showHelpAfterError(`Try "${name} ${command.name()} --help".`)
        .hook('preAction', refuseEmptyValues)
      program.addCommand(command)
    }
  }
  return program
}

const afterHelp = `
Exit codes: ${Object.entries(exitCodes)
  .map((entry) => entry.join(' '))
  .join(', ')}.
To try it: ${name} sandbox. With your own data: ${name} connect`

/** Why these arguments would be refused, in one line; null if they are right. Executes nothing. */
export function usageProblem(args: string[]): string | null {
  let problem = ''
  const program = createProgram({ ...nothing, writeErr: (text) => void (problem += text) })
  try {
    program.parse(spelledOut(args, program), { from: 'user' })
    return null
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
    return error.exitCode === 0 ? null : problem.split('\n')[0]!
  }
}

/** Replaces the words `help` and `version` by the options. */
function spelledOut(args: string[], program: AnyCommand): string[] {
  const [first = '', ...rest] = args
  if (first === 'help' && rest.length > 0) return spelledOut([rest[0]!, '--help'], program)
  if (first === 'help' || first === 'version') return [`--${first}`]
  // With --help, the library would show the general help for an unknown command.
  const isKnown = program.commands.some((command) => command.name() === first)
  return isKnown || first.startsWith('-') || args.length === 0 ? args : [first]
}

function inOneLine(text: string): string {
  return text
    .replace(/^error: /, '')
    .trimEnd()
    .replaceAll('\n', ' ')
}

/** The option's meaning and default value, for people; a meaning names the choices itself. */
export function describeOption({ description, defaultValue }: AnyCommand['options'][number]): string {
  return defaultValue === undefined ? description : `${description} (default: ${String(defaultValue)})`
}

/** The argument's meaning and possible values, for people. */
export function describeArgument({
  description,
  argChoices,
}: AnyCommand['registeredArguments'][number]): string {
  return argChoices ? `${description}: ${argChoices.join(', ')}` : description
}

// A script's unset variable must not be a silent default.
function refuseEmptyValues(_: AnyCommand, command: AnyCommand): void {
  const empty = command.options.find((option) => command.getOptionValue(option.attributeName()) === '')
  if (empty) command.error(`option '${empty.flags}' needs a value`)
}

/** Reports a `UsageError` as the library reports its own. */
function withUsageErrors(perform: Perform): Perform {
  return (handler, needs) =>
    perform(async (host, ...given) => {
      try {
        return await handler(host, ...given)
      } catch (error) {
        if (!(error instanceof UsageError)) throw error
        return (given.at(-1) as AnyCommand).error(error.message)
      }
    }, needs)
}
