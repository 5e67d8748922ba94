/** What is known of a user: the variables by their names. */
export type User = Record<'BRIDGE_URL' | 'BUCKET' | 'BEARER_TOKEN' | 'KEY_ID', string> &
  Record<string, string>

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
export function batch(user: User, requests: BatchRequest[]): Promise<BatchResponse[]>
export function ask(
  user: User,
  url: string,
  init?: { method?: string; body?: string },
  // oxlint-disable-next-line typescript/no-explicit-any -- bodies of every shape
): Promise<{ body: any; headers: Headers }>
export function printable(text: unknown): string
