import { expect, it } from 'bun:test'
import { formatBookmarks, parseBookmarks, printedIn } from '../../../src/cli/data/edit-text.ts'
import { readTree } from '../../../src/client/edit/tree.ts'
import { recordsOf } from '../../client/records.ts'

it.each([
  ['  New', 'it is no "Title <address>"'],
  ['Loose <https://x.example>', 'put it into one of the folders at the left'],
  ['   Odd <https://x.example>', 'indent it by two spaces'],
  ['      Deep <https://x.example>', 'it is indented below a line that is no folder'],
  ['  Twice <https://a.example/> ^a', '^a is in line'],
  ['  Unknown <https://a.example/> ^nope', 'there is no ^nope'],
  ['  Folder/ ^c', "^c is a bookmark, and can't become a folder"],
  ['  Line <https://x.example> ^line', "^line is a separator, and can't become a bookmark"],
  ['  Bad <https://x.example> tag', 'write only #tags and a @keyword: tag is neither'],
  ['  Bad <https://x.example> \\', 'it ends with a backslash'],
])('explains what is wrong with %p', (line, problem) => {
  const records = recordsOf('menu(a line) toolbar(c) mobile()', { line: { type: 'separator' } })
  const tree = readTree(records)
  const printed = formatBookmarks(tree, null, 1_700_000_000_000)
  const lines = printed.replaceAll(/^.*\^(c|line)\n/gm, '') + line

  expect(() => parseBookmarks(lines, tree, null, printedIn(printed)!)).toThrow(problem)
})
