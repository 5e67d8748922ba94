import { firefoxCollections } from '../../settings/schema.ts'
import { describeCommand, Option, SuggestedArgument } from '../command.ts'
import { readMoment } from './dates.ts'

const ownBridge =
  'Starts a bridge inside its own process, unless the account or --bridge names a running one.'

/** The option for the account file. */
export const accountOption = new Option(
  '-a, --account <FILE>',
  'the account; $SYNC_BRIDGE_ACCOUNT or ~/.config/sync-bridge/account.env by default',
)

/** The option for trusted certificates. */
export const caOption = new Option(
  '--ca <FILE>',
  'trust only the certificates in this PEM file, such as those of your proxy',
)

/** Begins the description of a command that uses an account through a bridge; its options are `AccountOptions`. */
export function describeAccountCommand(name: string, summary: string, details = '') {
  return describeCommand(name, summary, `${details}\n\n${ownBridge}`.trimStart())
    .addOption(accountOption)
    .option('--bridge <URL>', 'use this running bridge; the one that the account names by default')
    .option('--plain-http', 'allow a bridge on another machine without TLS')
    .addOption(caOption)
    .option('-v, --verbose', 'show the requests on standard error')
}

/** The option for a folder of bookmarks. */
export function folderOption(meaning: string) {
  return new Option('--folder <NAME>', meaning)
}

/** The option for not saving what a command overwrites; `undo` is false then. */
export const noUndoOption = new Option(
  '--no-undo',
  'do not save what this changes, so that it cannot be taken back',
)

/** The option for changes after a time. */
export const sinceOption = new Option(
  '--since <DATE>',
  'only what has changed since: 2026-01-31, or how long ago, such as 12h or 7d',
).argParser(readMoment)

/** The positional argument for one collection, except for some. Names are in lower case. */
export function collectionArgument(meaning: string, refused: ReadonlySet<string>) {
  return new SuggestedArgument('[COLLECTION]', meaning, allBut(refused)).argParser((text) =>
    text.toLowerCase(),
  )
}

/** The positional argument for any number of collections, except for some. */
export function collectionArguments(meaning: string, refused: ReadonlySet<string>) {
  return new SuggestedArgument('[COLLECTION...]', meaning, allBut(refused)).argParser(
    (text, before: string[] | undefined) => [...(before ?? []), text.toLowerCase()],
  )
}

function allBut(refused: ReadonlySet<string>): string[] {
  return firefoxCollections.filter((name) => !refused.has(name))
}
