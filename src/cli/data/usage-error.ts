/** A problem with the arguments of a command that its description does not cover. */
export class UsageError extends Error {}
