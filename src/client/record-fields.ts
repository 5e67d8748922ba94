/** The fields that Firefox writes into its records, as types that an editor completes. Other programs may write others, so all may be absent. */

export interface BookmarkFields {
  type: 'bookmark' | 'query' | 'folder' | 'livemark' | 'separator'
  title: string
  bmkUri: string
  tags: string[]
  keyword: string | null
  parentid: string
  parentName: string
  /** The ids of a folder's contents, in order. */
  children: string[]
  /** In ms since 1970. */
  dateAdded: number
}

export interface HistoryFields {
  histUri: string
  title: string
  /** `date`: in µs since 1970. `type`: 1 link, 2 typed, 3 bookmark, 4 embedded, 5 and 6 redirects, 7 download, 8 framed link, 9 reload. */
  visits: { date: number; type: number }[]
}

export interface LoginFields {
  hostname: string
  formSubmitURL: string | null
  httpRealm: string | null
  username: string
  password: string
  usernameField: string
  passwordField: string
  /** In ms since 1970, as are the following. */
  timeCreated: number
  timeLastUsed: number
  timePasswordChanged: number
}

export interface AddressFields {
  entry: Partial<
    Record<
      | 'name'
      | 'organization'
      | 'street-address'
      | 'address-level1'
      | 'address-level2'
      | 'address-level3'
      | 'postal-code'
      | 'country'
      | 'tel'
      | 'email',
      string
    >
  >
}

export interface CardFields {
  entry: Partial<{
    'cc-name': string
    'cc-number': string
    'cc-exp-month': number
    'cc-exp-year': number
    'cc-type': string
  }>
}

export interface FormFields {
  /** The name of the field. */
  name: string
  value: string
}

export interface TabFields {
  clientName: string
  /** `lastUsed`: in s since 1970. */
  tabs: { title: string; urlHistory: string[]; icon?: string; lastUsed: number }[]
}

/** The fields of the records of each collection. */
export interface RecordFields {
  bookmarks: BookmarkFields
  history: HistoryFields
  passwords: LoginFields
  addresses: AddressFields
  creditcards: CardFields
  forms: FormFields
  tabs: TabFields
}
