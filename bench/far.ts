import { makeCertificates } from '../tests/support/certificates.ts'
import { cores, start } from './processes.ts'
import { startUpstream, type Upstream } from './subjects.ts'

/** A storage at the other end of a wire with adjustable latency. */
export interface Far {
  /** Over plain HTTP, and over TLS with HTTP/2 and without. */
  plain: Upstream
  http2: Upstream
  http1: Upstream
  /** To detect whether load, wire and storage had CPU time left. */
  pids: number[]
  setRoundTrip(ms: number): Promise<void>
}

/** Constant responses, far away. */
export async function startFar(folder: string, core: string = cores.load): Promise<Far> {
  const certificates = await makeCertificates(folder)
  const { ports, pids } = await startUpstream(folder, core, certificates)
  return lead(ports, certificates.caPath, pids, core)
}

/** Routes these ports (plain, HTTP/2, TLS only) through a wire. */
export async function lead(
  ports: { plain: number; http2: number; http1: number },
  caPath: string,
  pids: number[],
  core: string = cores.load,
): Promise<Far> {
  const wire = start(
    [process.execPath, `${import.meta.dir}/wire.ts`, ports.plain, ports.http2, ports.http1].map(String),
    {
      core,
      stdin: 'pipe',
      stdout: 'pipe',
    },
  )
  const answers = (wire.stdout as ReadableStream<Uint8Array>).getReader()
  const read = async () => JSON.parse(Buffer.from((await answers.read()).value!).toString()) as number[]
  const [plain, http2, http1] = await read()
  return {
    plain: { origin: `http://127.0.0.1:${plain}` },
    http2: { origin: `https://127.0.0.1:${http2}`, tls: { caPath, protocol: 'http2' } },
    http1: { origin: `https://127.0.0.1:${http1}`, tls: { caPath, protocol: 'http1.1' } },
    pids: [...pids, wire.pid],
    async setRoundTrip(ms) {
      ;(wire.stdin as Bun.FileSink).write(`${ms}\n`)
      await read()
    },
  }
}
