/** `bun .ci/javascript-client.ts FOLDER` builds `sync-bridge-client`, the JavaScript package, into a folder. */
import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import ts from 'typescript'
import { run } from './run-command.ts'

const project = join(import.meta.dir, '..')
const entry = join(project, 'src/client/index.ts')
const name = 'sync-bridge-client'

/**
 * Creates `client/` in the folder, with ES modules, their types and one file for pages without a bundler, and a tarball of it for npm. The
 * same sources result in the same bytes. Returns the tarball's path.
 */
export async function makeClientPackage(folder: string): Promise<string> {
  const { version, license } = JSON.parse(readFileSync(join(project, 'package.json'), 'utf8'))
  const target = join(folder, 'client')
  rmSync(target, { recursive: true, force: true })
  mkdirSync(target, { recursive: true })
  compile(join(target, 'lib'))
  await bundle(join(target, `${name}.js`))
  const manifest = {
    name,
    version,
    description: 'Reads, decrypts and writes the collections of a Firefox account through Sync Bridge',
    license,
    type: 'module',
    exports: {
      '.': { types: './lib/index.d.ts', default: './lib/index.js' },
      './crypto': { types: './lib/crypto.d.ts', default: './lib/crypto.js' },
      './package.json': './package.json',
    },
    types: './lib/index.d.ts',
    sideEffects: false,
    engines: { node: '>=20' },
  }
  writeFileSync(join(target, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`)
  copyFileSync(join(project, 'src/client/README.md'), join(target, 'README.md'))
  copyFileSync(join(project, 'LICENSE'), join(target, 'LICENSE'))
  // Gives all files the same date, so that the same sources result in the same bytes.
  await run([process.execPath, 'pm', 'pack', '--quiet', '--destination', resolve(folder)], { cwd: target })
  return join(folder, `${name}-${version}.tgz`)
}

function compile(outDir: string): void {
  const program = ts.createProgram([entry], {
    outDir,
    target: ts.ScriptTarget.ES2023,
    module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
    lib: ['lib.es2023.d.ts', 'lib.dom.d.ts', 'lib.dom.iterable.d.ts'],
    types: [],
    strict: true,
    skipDefaultLibCheck: true,
    verbatimModuleSyntax: true,
    rewriteRelativeImportExtensions: true,
    declaration: true,
  })
  const { diagnostics } = program.emit(undefined, (path, text) => {
    // The compiler leaves the source names in declarations.
    const own = path.endsWith('.d.ts') ? text.replaceAll(/(from '\.[\w./-]+)\.ts'/g, "$1.js'") : text
    ts.sys.writeFile(path, own)
  })
  const problems = [...ts.getPreEmitDiagnostics(program), ...diagnostics]
  if (problems.length > 0)
    throw new Error(
      ts.formatDiagnostics(problems, {
        getCanonicalFileName: (path) => path,
        getCurrentDirectory: () => project,
        getNewLine: () => '\n',
      }),
    )
}

async function bundle(path: string): Promise<void> {
  const minify = { whitespace: true, syntax: true, identifiers: false }
  const { outputs } = await Bun.build({ entrypoints: [entry], target: 'browser', format: 'esm', minify })
  await Bun.write(path, outputs[0]!)
}

if (import.meta.main) await makeClientPackage(resolve(process.argv[2] ?? join(project, 'dist')))
