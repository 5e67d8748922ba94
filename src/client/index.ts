/**
 * A client for Sync Bridge: reads, decrypts and writes the collections of a Firefox account. For browsers, Node 20 and later, Deno and Bun,
 * without dependencies. The key never leaves the program.
 */
export { readAccountFile } from './account-file.ts'
export { checkAccount, formatAccount, isRenewable, parseAccount, type Account } from './account.ts'
export {
  bookmarkTree,
  bookmarkRoots,
  folderNamed,
  foldersNamed,
  walk,
  type BookmarkNode,
} from './bookmarks.ts'
export type { PlainBookmark } from './bookmark-formats.ts'
export { changes, type WatchOptions } from './changes.ts'
export {
  Collection,
  isReadable,
  type CollectionInfo,
  type Page,
  type ReadableRecord,
  type ReadOptions,
  type StoredRecord,
  type SyncRecord,
} from './collection.ts'
export {
  collectionKeys,
  decryptRecord,
  decryptRecords,
  encryptRecord,
  keyPairFromHex,
  UnreadableRecord,
  type ClearRecord,
  type EncryptedRecord,
  type KeyPair,
} from './crypto.ts'
export { describeRecord, faultOf, isUsable, nameRecord } from './engine-records.ts'
export {
  readBookmark,
  readDevice,
  readEntry,
  readExtensionData,
  readFormEntry,
  readLogin,
  readPreferences,
  readTabs,
  readVisitedPage,
  type Bookmark,
  type Device,
  type Login,
  type Tab,
  type Visit,
  type VisitedPage,
} from './record-readers.ts'
export { ClientError, type AccountField } from './errors.ts'
export type {
  AddEdit,
  ChangeEdit,
  Edit,
  ItemFields,
  MoveEdit,
  Place,
  Problem,
  ProblemCode,
  RecordEdit,
  RemoveEdit,
} from './edit/edit.ts'
export type { Edits, SaveOptions, SaveResult } from './edit/save.ts'
export type { Saved, SavedRecord, WrittenRecord } from './edit/saved.ts'
export { folderCalled, type Item, type ItemKind, type Tree } from './edit/tree.ts'
export { textOf, type Fields } from './fields.ts'
export { exportFormats, type Exported } from './export-formats.ts'
export { deviceTabs, type DeviceTabs, type Everything } from './record-formats.ts'
export { forHtml, forMarkdown, forSpreadsheet, printable, jsonText, markdownLink } from './safe-text.ts'
export type { Format, FormatOptions } from './tables.ts'
export type {
  AddressFields,
  BookmarkFields,
  CardFields,
  FormFields,
  HistoryFields,
  LoginFields,
  RecordFields,
  TabFields,
} from './record-fields.ts'
export type { ClientOptions } from './requests.ts'
export {
  connect,
  SyncClient,
  type BridgeInfo,
  type TransactionRequest,
  type TransactionResponse,
} from './sync-client.ts'
export { renewToken, revokeRefreshToken } from './token.ts'
