import type { Host } from '../../src/cli/host.ts'
import type { Output } from '../../src/cli/output.ts'
import type { Verdicts } from '../../src/cli/service/check.ts'
import type { Programs } from '../../src/cli/commands.ts'
import type { SandboxOptions } from '../../src/cli/service/sandbox.ts'
import type { Settings } from '../../src/settings/settings.ts'

interface FakeHost extends Host {
  /** Everything written. */
  out: string
  err: string
  /** Both, in the order written. */
  all: string
}

/** A file system in memory, without randomness, at the beginning of 2026. */
export function fakeHost(
  files: Record<string, string> = {},
  environment: Record<string, string> = {},
  more: Partial<Host> = {},
): FakeHost {
  const host: FakeHost = {
    out: '',
    err: '',
    all: '',
    stdin: inputOf(''),
    stdout: outputTo((text) => {
      host.out += text
      host.all += text
    }),
    stderr: outputTo((text) => {
      host.err += text
      host.all += text
    }),
    environment: { ...environment },
    readFile(path) {
      if (Object.hasOwn(files, path)) return files[path]!
      throw Object.assign(new Error(`no ${path}`), { code: 'ENOENT' })
    },
    otherReaders: () => null,
    executablePath: '/opt/sync-bridge',
    standalone: true,
    cwd: '/home/operator',
    now: () => Date.UTC(2026, 0, 1),
    monotonicNow: () => performance.now(),
    randomBytes: (length) => Uint8Array.from({ length }, (_, index) => 3 * index + 1),
    onSignal: () => {},
    fetchSlots: 256,
    cpuMs: () => 0,
    residentBytes: () => 0,
    heapBytes: () => 0,
    ...more,
  }
  return host
}

/** Standard input with this content. */
export function inputOf(content: string | Uint8Array): Host['stdin'] {
  return {
    isTty: false,
    async *chunks() {
      yield Buffer.from(content)
    },
  }
}

function outputTo(take: (text: string) => void): Output {
  return {
    isTty: false,
    isJournal: false,
    async write(text) {
      take(text)
      return null
    },
  }
}

/** Commands that record their arguments and exit with 7. Their probes return the given results. */
export function fakeCommands(verdicts: Verdicts = {}) {
  const programs: Programs & { served: Settings[]; sandboxes: SandboxOptions[]; probed: number } = {
    served: [],
    sandboxes: [],
    probed: 0,
    async serve(settings) {
      programs.served.push(settings)
      return 7
    },
    async sandbox(options) {
      programs.sandboxes.push(options)
      return 7
    },
    async probe() {
      programs.probed += 1
      const answers = { ok: true, detail: 'OK' }
      return {
        'token server': answers,
        cache: answers,
        address: { ok: true, detail: 'available' },
        ...verdicts,
      }
    },
  }
  return programs
}

export const secret = '52d914afd94b94716c8fb113dd4f0ae2f55ba31f3506b31562d2698e777e1208'

/** The minimal settings file. */
export const minimalIni = `service.token_server_url = https://token.example.org\nservice.cache_hmac_secret = ${secret}\n`
