import { usageProblem } from '../../src/cli/run.ts'
import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

import Ajv from 'ajv/dist/2020.js'
import { YAML } from 'bun'
import { environmentLines } from '../../src/cli/service/runtime-environment.ts'
import { unpack, whyNoPython } from '../clients/python.ts'
import { runProgram, temporaryFolder, words } from '../support/processes.ts'
import { executablePath } from '../support/executable.ts'

// The schemas are downloaded first, and a busy machine takes minutes for that.
const downloadMs = 300_000
const examples = join(import.meta.dir, '../../docs/examples')
const { version } = JSON.parse(readFileSync(join(import.meta.dir, '../../package.json'), 'utf8'))
const image = `localhost/sync-bridge:${version}`
const folder = temporaryFolder()

const why = whyNoPython === null ? '' : ` (NOT RUN: ${whyNoPython})`

interface Container {
  image: string
  env: { name: string; value: string }[]
}

/** What this schema, whose file may name others beside it, finds wrong with a value. */
function faults(path: string, value: unknown, others: string[] = []): unknown {
  const ajv = new Ajv({ strict: false, validateFormats: false, schemaId: '$id' })
  const readJson = (name: string) => {
    const { $schema: _, ...schema } = JSON.parse(readFileSync(name, 'utf8')) as object & { $schema?: string }
    return schema
  }
  for (const other of others) ajv.addSchema(readJson(join(dirname(path), other)), other)
  const validate = ajv.compile(readJson(path))
  return validate(value) ? [] : validate.errors
}

/** What a container with this secret would print about its settings. */
function check(args: string[], environment: Record<string, string>): Promise<string> {
  return runProgram([executablePath, 'check', '--offline', ...args], {
    // The image listens on all addresses of its network.
    environment: { SERVICE_HOST: '0.0.0.0', ...environment, CREDENTIALS_DIRECTORY: folder.path },
  })
}

beforeAll(() => writeFileSync(folder.file('cache_hmac_secret'), 'ab'.repeat(32), { mode: 0o600 }))

afterAll(() => folder[Symbol.dispose]())

// Other programs and the executable, because they decide whether these files are valid.
describe('compose.yaml', () => {
  const text = readFileSync(join(examples, 'compose.yaml'), 'utf8')
  const { services } = YAML.parse(text) as {
    services: Record<string, { image: string; command?: string[]; environment: Record<string, string> }>
  }

  it.skipIf(whyNoPython !== null)(
    `is valid according to the Compose specification${why}`,
    async () => {
      const unpacked = await unpack('check-jsonschema==0.39.0', ['compose-spec.json'])
      const schema = join(unpacked, 'check_jsonschema/builtin_schemas/vendor/compose-spec.json')

      expect(faults(schema, YAML.parse(text))).toEqual([])
    },
    downloadMs,
  )

  it('starts the image of this release with valid settings', async () => {
    const given: Record<string, string> = {
      HOST: 'sync.example.org',
      TOKEN_SERVER: 'https://token.example.org',
    }
    const settings = Object.entries(services.bridge!.environment).map(([name, value]) => [
      name,
      value.replaceAll(/\$\{(\w+)(:[^}]*)?\}/g, (_, variable) => given[variable] ?? ''),
    ])

    const said = await check([], Object.fromEntries(settings))

    expect(services.bridge!.image).toBe(image)
    expect(said).toContain('the settings are valid')
    expect(said).not.toContain('warning')
  })

  it('makes a backup with a command of the same image', () => {
    const { command } = services.backup!

    expect(services.backup!.image).toBe(image)
    expect(command!.slice(0, 2)).toEqual(['backup', '/backups'])
    expect(usageProblem(command!)).toBeNull()
  })

  it('sets the same variables of the runtime as the unit and the image', () => {
    const lines = Object.entries(services.bridge!.environment).map(([name, value]) => `${name}=${value}`)

    expect(lines).toEqual(expect.arrayContaining(environmentLines))
  })

  it('documents every variable that it uses', () => {
    const [introduction] = text.split('\nservices:')
    const wanted = [...text.matchAll(/\$\{(\w+)/g)].map(([, name]) => name!)

    expect(wanted.filter((name) => !introduction!.includes(`#   ${name}=`))).toEqual([])
  })

  it('has a storage next to the bridge, for which Caddy has a file', async () => {
    const site = folder.file('site.d')
    mkdirSync(site)
    copyFileSync(join(examples, 'syncstorage.caddy'), join(site, 'syncstorage.caddy'))
    copyFileSync(join(examples, 'Caddyfile'), folder.file('Caddyfile'))

    const config = folder.file('Caddyfile')
    const adapted = await runProgram(words`caddy adapt --adapter caddyfile --config ${config}`)

    expect(adapted).toContain('"dial":"storage:8000"')
    expect(services.storage!.environment).toHaveProperty('SYNC_TOKENSERVER__INIT_NODE_URL', 'https://${HOST}')
  })
})

describe('kubernetes.yaml', () => {
  const text = readFileSync(join(examples, 'kubernetes.yaml'), 'utf8')

  const kubernetesVersions = ['1.27.0', '1.37.0']

  it.skipIf(whyNoPython !== null).each(kubernetesVersions)(
    `is valid according to Kubernetes %s${why}`,
    async (kubernetes) => {
      // All of its 17 000 schemas take longer to write than this file to validate.
      const schemas = kubernetesVersions.map((version) => `v${version}-local-strict`)
      const unpacked = await unpack('kubernetes-validate==1.37.0', schemas)
      const folder = `kubernetes_validate/kubernetes-json-schema/v${kubernetes}-local-strict`
      const found = (YAML.parse(text) as { apiVersion: string; kind: string }[]).map((resource) => {
        const version = resource.apiVersion.replace(/[.\w]*\//, (group) => `${group.split(/[./]/)[0]}-`)
        const name = `${resource.kind}-${version}.json`.toLowerCase()
        return faults(join(unpacked, folder, name), resource, ['_definitions.json'])
      })

      expect(found).toEqual([[], [], [], [], []])
    },
    downloadMs,
  )

  it('starts the image of this release with valid settings and the variables of the runtime', async () => {
    const [settings, deployment] = YAML.parse(text) as [
      { data: Record<string, string> },
      { spec: { template: { spec: { containers: Container[] } } } },
    ]
    const containers = deployment.spec.template.spec.containers
    writeFileSync(folder.file('sync-bridge.ini'), settings.data['sync-bridge.ini']!)

    const said = await check(['--config', folder.file('sync-bridge.ini')], {})

    expect(containers.map((container) => container.image)).toEqual([image])
    expect(containers[0]!.env.map(({ name, value }) => `${name}=${value}`)).toEqual(
      expect.arrayContaining(environmentLines),
    )
    expect(said).toContain('the settings are valid')
    expect(said).not.toContain('warning')
  })
})
