/** What is known of a user, by the names of the variables. */
export interface User {
  BRIDGE_URL: string
  BUCKET: string
  BEARER_TOKEN: string
  KEY_ID: string
  /** 128 hexadecimal digits; `BACKUP_SYNC_KEY` is the one of a backup, if it is another. */
  SYNC_KEY?: string
  BACKUP_SYNC_KEY?: string
  REFRESH_TOKEN?: string
  TOKEN_ENDPOINT?: string
  CLIENT_ID?: string
  /** Puts a new token in the place of one that has ended; see account.ts. */
  renew?(): Promise<void>
}

/** A record as the bridge gives it. */
export interface StoredRecord {
  id: string
  last_modified: number
  payload: string
  sortindex?: number
}

export interface BatchRequest {
  method?: 'GET' | 'PUT' | 'DELETE'
  /** Below the bucket: `/collections/...` */
  path: string
  headers?: Record<string, string>
  body?: object
}

export interface BatchResponse {
  status: number
  path: string
  headers: Record<string, string>
  body: { data?: StoredRecord; message?: string }
}

export function readUser(values: Record<string, string | undefined>, more?: string[]): User
export function list(user: User, path: string): Promise<{ records: StoredRecord[]; etag: string | null }>
export function count(user: User, collection: string): Promise<{ total: number; etag: string | null }>
export function batch(user: User, requests: BatchRequest[]): Promise<BatchResponse[]>
export function ask(
  user: User,
  url: string,
  init?: { method?: string; body?: string },
  // oxlint-disable-next-line typescript/no-explicit-any -- bodies of every shape
): Promise<{ body: any; headers: Headers }>
export function printable(text: unknown): string
