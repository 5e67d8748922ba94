import { describe, expect, it } from 'bun:test'

import { createLineWriter, createOutputLog, createOutputQueue } from '../../src/cli/output.ts'
import { fakeHost } from './fake-host.ts'

import type { Settings } from '../../src/settings/settings.ts'

/** A sink whose reader takes a text when `read` is called. */
function slowSink() {
  const texts: string[] = []
  const waiting: ((error: Error | null) => void)[] = []
  return {
    texts,
    sink: {
      write(text: string) {
        texts.push(text)
        return new Promise<Error | null>((resolve) => waiting.push(resolve))
      },
    },
    /** Resolves once the writer has continued. */
    async take(error: Error | null = null) {
      waiting.shift()!(error)
      await Bun.sleep(0)
    },
  }
}

describe('createLineWriter', () => {
  it('writes whole lines to the sink, as many as fit into a chunk', async () => {
    const { sink, texts, take } = slowSink()
    const writer = createLineWriter(sink, () => {})

    const [small, large] = ['b'.repeat(2047), 'c'.repeat(5000)]
    for (const line of ['a', small, small, small, large, 'd']) writer.write(line)
    for (let pieces = 0; pieces < 5; pieces++) await take()

    expect(texts).toEqual(['a\n', `${small}\n${small}\n`, `${small}\n`, `${large}\n`, 'd\n'])
    expect(writer.dropped()).toBe(0)
  })

  it('drops the newest lines when the reader has stopped, and reports that when it reads again', async () => {
    const { sink, texts, take } = slowSink()
    const onRecovered = (lost: number) => writer.write(`-${lost}`)
    const writer: ReturnType<typeof createLineWriter> = createLineWriter(sink, onRecovered)
    const half = 'x'.repeat(512 * 1024)

    // As many characters as before, and three times the bytes.
    for (const line of ['a', half, '€'.repeat(350_000), half, 'b']) writer.write(line)
    for (let pieces = 0; pieces < 4; pieces++) await take()

    expect(texts).toEqual(['a\n', `${half}\n`, 'b\n', '-2\n'])
    expect(writer.dropped()).toBe(2)
  })

  it('counts the lines that could not be written, and continues on a line of its own', async () => {
    const { sink, texts, take } = slowSink()
    const lost: number[] = []
    const writer = createLineWriter(sink, (count) => lost.push(count))

    for (const line of ['a', 'b', 'c']) writer.write(line)
    await take(new Error('EPIPE'))
    await take(new Error('EPIPE'))
    for (const line of ['d', 'e']) writer.write(line)
    for (let pieces = 0; pieces < 2; pieces++) await take()

    expect(texts).toEqual(['a\n', '\nb\nc\n', '\nd\n', 'e\n'])
    expect(writer.dropped()).toBe(3)
    expect(lost).toEqual([3])
  })
})

const settings = { loggingRenderer: 'text', loggingLevel: 'info' } as Settings

async function lineOn(output: { isTty: boolean; isJournal: boolean }, environment: Record<string, string>) {
  let written = ''
  const write = async (text: string) => {
    written += text
    return null
  }
  const { log, flush } = createOutputLog(settings, fakeHost({}, environment), { ...output, write })
  log.warning('the new executable needs a restart')
  await flush()
  return written
}

describe('createOutputLog', () => {
  const terminal = { isTty: true, isJournal: false }

  it('colours text on a terminal, unless NO_COLOR is set', async () => {
    expect(await lineOn(terminal, {})).toContain('\x1b[33mwarning')
    expect(await lineOn(terminal, { NO_COLOR: '' })).toContain('\x1b[33mwarning')
    expect(await lineOn(terminal, { NO_COLOR: '1' })).toMatch(
      /^[\d-]+T[\d:.]+Z warning the new executable needs a restart\n$/,
    )
  })
})

describe('createOutputQueue', () => {
  /** An output whose reader takes the next text when the test says so. */
  function slowOutput() {
    const taken: string[] = []
    const turns: ((error: Error | null) => void)[] = []
    const stdout = {
      isTty: false,
      isJournal: false,
      write: (text: string) => {
        taken.push(text)
        return new Promise<Error | null>((resolve) => turns.push(resolve))
      },
    }
    const take = async (error: Error | null = null) => {
      while (turns.length === 0) await Bun.sleep(0)
      turns.shift()!(error)
    }
    return { stdout, taken, take }
  }

  it('waits for its reader only when it is full, and keeps the order', async () => {
    const { stdout, taken, take } = slowOutput()
    const queue = createOutputQueue({ stdout }, 5)

    expect([await queue.write('ab'), await queue.write('cd')]).toEqual([true, true])
    let isFull = true
    const third = queue.write('ef').then(() => (isFull = false))
    await take()
    await Bun.sleep(0)
    expect(isFull).toBe(true)
    await take()
    await take()
    await third

    expect(await queue.finish()).toBe(true)
    expect(taken).toEqual(['ab', 'cd', 'ef'])
  })

  it.each([
    [
      'EPIPE',
      async (queue: ReturnType<typeof createOutputQueue>) => expect(await queue.finish()).toBe(false),
    ],
    [
      'ENOSPC',
      (queue: ReturnType<typeof createOutputQueue>) =>
        expect(queue.finish()).rejects.toThrow('Cannot write to standard output: ENOSPC'),
    ],
  ])('ends at the first error: %s', async (code, check) => {
    const { stdout, taken, take } = slowOutput()
    const queue = createOutputQueue({ stdout })
    await queue.write('a')
    await queue.write('b')

    await take(Object.assign(new Error(code), { code }))
    await check(queue)

    expect(await queue.write('c')).toBe(false)
    expect(taken).toEqual(['a'])
  })
})
