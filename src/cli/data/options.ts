import { Argument, Option } from '../command.ts'
import { readMoment } from './dates.ts'

/** The paragraph about the bridge of a command. */
export const ownBridge =
  'Starts a bridge inside its own process. Set BRIDGE_URL in the environment to use a running one.'

/** The option for the account file. */
export const accountOption = new Option(
  '-a, --account <FILE>',
  'the account; $SYNC_BRIDGE_ACCOUNT or ~/.config/sync-bridge/account.env by default',
)

/** The option for a folder of bookmarks. */
export function folderOption(meaning: string) {
  return new Option('--folder <NAME>', meaning)
}

/** The option for changes after a time. */
export const sinceOption = new Option(
  '--since <DATE>',
  'only what has changed since: 2026-01-31, or how long ago, such as 12h or 7d',
).argParser(readMoment)

/** The positional argument for one collection. Names are in lower case. */
export function collectionArgument(meaning: string) {
  return new Argument('[COLLECTION]', meaning).argParser((text) => text.toLowerCase())
}

/** The positional argument for any number of collections. */
export function collectionArguments(meaning: string) {
  return new Argument('[COLLECTION...]', meaning).argParser((text, before: string[] | undefined) => [
    ...(before ?? []),
    text.toLowerCase(),
  ])
}
