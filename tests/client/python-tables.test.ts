import { describe, expect, it } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

import { pythonEngines, pythonEnginesPath } from '../../.ci/python-engines.ts'
import { exportFormats } from '../../src/client/export-formats.ts'

const project = join(import.meta.dir, '../..')
const packageFolder = 'clients/python/sync_bridge_client'
const read = (path: string) => readFileSync(join(project, path), 'utf8')

// `tests/clients/python-package.test.ts` runs both packages, which needs Python. These tests only read its tables.
describe('the Python package', () => {
  it('has the fields of records that "make pages" writes', () => {
    expect(read(pythonEnginesPath)).toBe(pythonEngines())
  })

  it(`has the export formats of JavaScript: add new ones to ${packageFolder}/record_formats.py or bookmark_formats.py`, () => {
    const modules = ['bookmark_formats', 'record_formats'].map((name) => read(`${packageFolder}/${name}.py`))
    const tables = modules.flatMap((text) => [...text.matchAll(/^(\w+_FORMATS): Formats = \{([^}]*)\}/gm)])
    const namesIn = new Map(
      tables.map(([, table, rows]) => [table, [...rows!.matchAll(/"([\w-]+)":/g)].map(([, name]) => name)]),
    )
    const listed = [...read(`${packageFolder}/export_formats.py`).matchAll(/"(\w+)": (\w+_FORMATS)/g)]

    expect(listed.map(([, what, table]) => [what, namesIn.get(table)])).toEqual(
      Object.entries(exportFormats).map(([what, formats]) => [what, Object.keys(formats)]),
    )
  })
})
