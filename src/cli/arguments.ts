import { nearest } from '../settings/spelling.ts'

/** How an option is given: alone, with a value, or with a value and several times. */
export type OptionKind = 'flag' | 'value' | 'list'

export type OptionKinds = Record<string, OptionKind>

/** What was given, by name without dashes. An option that was not given is absent; a flag has no values. */
export type GivenOptions = Map<string, string[]>

/**
 * Reads `--name value`, `--name=value` and `--name`. Everything else is an error, whose message says which argument
 * could not be used.
 */
export function readArguments(
  args: string[],
  kinds: OptionKinds,
): { options: GivenOptions } | { error: string } {
  const options: GivenOptions = new Map()
  for (let index = 0; index < args.length; index++) {
    const argument = args[index]!
    const match = /^(?:--([^=]+)|(-h))(?:=(.*))?$/s.exec(argument)
    if (!match) return { error: `unexpected argument ${JSON.stringify(argument)}` }

    const name = match[1] ?? 'help'
    const kind = Object.hasOwn(kinds, name) ? kinds[name] : undefined
    if (kind === undefined) {
      const meant = nearest(name, Object.keys(kinds))
      return {
        error: `unknown option ${JSON.stringify(`--${name}`)}${meant ? `: did you mean --${meant}?` : ''}`,
      }
    }
    const values = options.get(name)
    if (values && kind !== 'list') return { error: `--${name} is given twice` }
    if (kind === 'flag') {
      if (match[3] !== undefined) return { error: `--${name} takes no value` }
      options.set(name, [])
      continue
    }

    const following = args[index + 1]
    if (match[3] === undefined && following !== undefined && !following.startsWith('--')) index++
    const value = match[3] ?? (following?.startsWith('--') ? undefined : following)
    if (!value) return { error: `--${name} needs a value` }
    options.set(name, [...(values ?? []), value])
  }
  return { options }
}
