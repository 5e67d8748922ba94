/** What is wrong with the arguments of a command, where their description does not tell. */
export class UsageError extends Error {}
