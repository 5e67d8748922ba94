import { cores, forgetPeak, peakMegabytes, residentMegabytes, start, stop } from '../processes.ts'
import { interleave, median, ratio } from '../statistics.ts'
import type { Subject } from '../subjects.ts'

export interface Download {
  name: string
  megabytesPerSecond: number
  firstByteMs: number
  /** Peak memory during a download, relative to the process before the first one. */
  megabytesAboveIdle: number
  ratioTo(base: Download): number
  rates: number[]
}

/** Reads one long list with curl, alternating between subjects. */
export async function measureDownloads(subjects: Subject[], rounds: number): Promise<Download[]> {
  const idle = subjects.map(({ pids }) => residentMegabytes(pids))
  for (const subject of subjects) await download(subject)
  const figures = await interleave(subjects, rounds, download)
  return subjects.map(({ name }, index) => {
    const own = figures[index]!
    const rates = own.map((figure) => figure.megabytesPerSecond)
    return {
      name,
      rates,
      megabytesPerSecond: median(rates),
      firstByteMs: median(own.map((figure) => figure.firstByteMs)),
      megabytesAboveIdle: Math.max(...own.map((figure) => figure.peak)) - idle[index]!,
      ratioTo: (base) => ratio(rates, base.rates),
    }
  })
}

async function download({ url, headers, pids }: Subject) {
  forgetPeak(pids)
  const format = '%{http_code} %{size_download} %{time_starttransfer} %{time_total}'
  const curl = start(['curl', '-s', '-o', '/dev/null', '-w', format, ...headerArguments(headers), url], {
    core: cores.load,
    stdout: 'pipe',
  })
  const text = await new Response(curl.stdout as ReadableStream<Uint8Array>).text()
  const [status, bytes, firstByte, total] = text.split(' ').map(Number)
  if (status !== 200) throw new Error(`Cannot download ${url}: status ${status}`)
  return {
    megabytesPerSecond: bytes! / 1e6 / total!,
    firstByteMs: firstByte! * 1000,
    peak: peakMegabytes(pids),
  }
}

function headerArguments(headers: Record<string, string>): string[] {
  return Object.entries(headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`])
}

export interface SlowReaders {
  megabytesAboveIdle: number
  /** Memory above idle over time. */
  course: [seconds: number, megabytes: number][]
}

/** Reads one long list with many clients at 500 KB/s each, for some seconds. */
export async function measureSlowReaders(
  { url, headers, pids }: Subject,
  count: number,
  seconds: number,
): Promise<SlowReaders> {
  const idle = residentMegabytes(pids)
  const startedAtMs = performance.now()
  const readers = Array.from({ length: count }, () =>
    start(['curl', '-s', '-o', '/dev/null', '--limit-rate', '500k', ...headerArguments(headers), url], {
      core: cores.load,
    }),
  )
  const course: SlowReaders['course'] = []
  for (let elapsed = 0; elapsed < seconds; elapsed = (performance.now() - startedAtMs) / 1000) {
    course.push([elapsed, residentMegabytes(pids) - idle])
    await Bun.sleep(50)
  }
  if (readers.some(({ exitCode }) => exitCode !== null)) throw new Error('A slow reader ended early')
  await Promise.all(readers.map(stop))
  return { megabytesAboveIdle: Math.max(...course.map(([, megabytes]) => megabytes)), course }
}
