import {
  Argument,
  Command,
  InvalidArgumentError,
  Option,
  type CommandUnknownOpts,
} from '@commander-js/extra-typings'
import { nearest } from '../settings/nearest.ts'
import type { Host } from './host.ts'

export { Argument, Option } from '@commander-js/extra-typings'
export type { CommandUnknownOpts as AnyCommand } from '@commander-js/extra-typings'

/** The exit code of a command that succeeded only in part. */
export const partialSuccess = 3

/** The meaning of each exit code. */
export const exitCodes = {
  0: 'success',
  1: 'failure',
  2: 'usage error or bad settings',
  [partialSuccess]: 'partial success',
}

/** A problem with the arguments of a command that its description does not cover. Thrown by handlers. */
export class UsageError extends Error {}

/**
 * Makes an action of a handler: calls it with the operating system and the typed arguments and options. It returns the exit code.
 * A handler that makes no connections works in an environment that would weaken them.
 */
export type Perform = <Arguments extends unknown[]>(
  handler: (host: Host, ...given: Arguments) => number | Promise<number>,
  needs?: { connections: boolean },
) => (...given: Arguments) => Promise<void>

/**
 * Creates the description of a command: its arguments, options and handler. A new one each time, because it also holds what was parsed.
 * `perform` stays outside, because pages and completions need only the description.
 */
export type CommandFactory = (perform: Perform) => CommandUnknownOpts

/** Begins a description. The summary is a phrase without a full stop. */
export function describeCommand(name: string, summary: string, details = '') {
  const sentence = `${summary[0]!.toUpperCase()}${summary.slice(1)}.`
  return new Command(name).summary(summary).description(`${sentence}\n\n${details}`.trimEnd())
}

/** The option for the settings file. */
export const configOption = new Option(
  '-c, --config <FILE>',
  'the settings file; without it, only the environment counts (SERVICE_<NAME>)',
)

/** Reads one of several words. */
export function oneOf<Word extends string>(words: readonly Word[]): (text: string) => Word {
  return (text) => {
    const found = words.find((word) => word === text)
    if (found !== undefined) return found
    const meant = nearest(text, [...words])
    throw new InvalidArgumentError(meant === null ? `Use ${words.join(', ')}.` : `Did you mean ${meant}?`)
  }
}

/** A positional argument with words for completions; others are accepted, too. `choices` are all that is accepted. */
export class SuggestedArgument<Flags extends string> extends Argument<Flags> {
  constructor(
    flags: Flags,
    meaning: string,
    readonly suggestions: readonly string[],
  ) {
    super(flags, meaning)
  }
}

/** An option whose words depend on the first argument of its command. */
export class DependentOption<Flags extends string> extends Option<Flags> {
  constructor(
    flags: Flags,
    meaning: string,
    readonly wordsOf: Readonly<Record<string, readonly string[]>>,
  ) {
    super(flags, meaning)
  }
}

/** Reads a whole number. */
export function wholeNumber(min: number, max: number): (text: string) => number {
  return (text) => {
    const number = Number(text)
    if (/^\d{1,15}$/.test(text) && number >= min && number <= max) return number
    throw new InvalidArgumentError(`Write a number from ${min} to ${max}.`)
  }
}

/** Collects the values of an option that may be given several times. */
export function several<Value>(read: (text: string) => Value) {
  return (text: string, before: Value[] | undefined): Value[] | undefined => [...(before ?? []), read(text)]
}

/** The placeholder of an option's value, such as FILE; empty for a flag. */
export function placeholderOf({ flags }: { flags: string }): string {
  return /<([^<>]+)>/.exec(flags)?.[1] ?? ''
}

/** Ends the reading of a value with what is wrong with it, as a sentence. */
export function refuse(problem: string): never {
  throw new InvalidArgumentError(problem)
}
