import { describe, expect, it } from 'bun:test'

import { LineWriter } from '../../src/observability/line-writer.ts'

const usual = { pieceBytes: Infinity, onRecovered() {} }

/** A sink whose reader takes a text when it is told to. */
function slowSink() {
  const texts: string[] = []
  const waiting: ((error?: Error) => void)[] = []
  return {
    texts,
    sink: {
      write(text: string, written: (error?: Error) => void) {
        texts.push(text)
        waiting.push(written)
      },
    },
    take: (error?: Error) => waiting.shift()!(error),
  }
}

describe('LineWriter', () => {
  it('gives the sink whole lines, as many as fit into a piece', () => {
    const { sink, texts, take } = slowSink()
    const writer = new LineWriter(sink, { ...usual, pieceBytes: 8 })

    for (const line of ['a', 'bb', 'ccc', 'dd', 'e'.repeat(20), 'f']) writer.write(line)
    for (let pieces = 0; pieces < 5; pieces++) take()

    expect(texts).toEqual(['a\n', 'bb\nccc\n', 'dd\n', `${'e'.repeat(20)}\n`, 'f\n'])
  })

  it('writes lines in order, those that had to wait at once', () => {
    const { sink, texts, take } = slowSink()
    const writer = new LineWriter(sink, usual)

    for (const line of ['a', 'b', 'c']) writer.write(line)
    take()
    take()
    writer.write('d')

    expect(texts).toEqual(['a\n', 'b\nc\n', 'd\n'])
    expect(writer.dropped).toBe(0)
  })

  it('drops the newest lines when the reader has stopped, and says so when it reads again', () => {
    const { sink, texts, take } = slowSink()
    const writer: LineWriter = new LineWriter(sink, {
      ...usual,
      onRecovered: (lost) => writer.write(`-${lost}`),
    })
    const half = 'x'.repeat(512 * 1024)

    for (const line of ['a', half, half, half, 'b']) writer.write(line)
    take()
    take()
    take()

    expect(texts).toEqual(['a\n', `${half}\nb\n`, '-2\n'])
    expect(writer.dropped).toBe(2)
  })

  it('counts bytes, not characters', () => {
    const { sink } = slowSink()
    const writer = new LineWriter(sink, usual)

    writer.write('€'.repeat(350_000))

    expect(writer.dropped).toBe(1)
  })

  it('counts the lines of a text that could not be written, and goes on', () => {
    const { sink, texts, take } = slowSink()
    const lost: number[] = []
    const writer = new LineWriter(sink, { ...usual, onRecovered: (count) => lost.push(count) })

    for (const line of ['a', 'b', 'c']) writer.write(line)
    take(new Error('EPIPE'))
    take(new Error('EPIPE'))
    writer.write('d')
    take()

    expect(texts).toEqual(['a\n', 'b\nc\n', 'd\n'])
    expect(writer.dropped).toBe(3)
    expect(lost).toEqual([3])
  })

  it('works with a sink that writes at once', async () => {
    const texts: string[] = []
    const sink = {
      write(text: string, written: (error?: Error | null) => void) {
        texts.push(text)
        written(texts.length === 1 ? new Error('ENOSPC') : null)
      },
    }
    const writer = new LineWriter(sink, usual)

    for (const line of ['a', 'b']) writer.write(line)
    await writer.flush()

    expect(texts).toEqual(['a\n', 'b\n'])
    expect(writer.dropped).toBe(1)
  })

  it('is flushed once everything has left', async () => {
    const { sink, take } = slowSink()
    const writer = new LineWriter(sink, usual)
    const states: string[] = []

    writer.write('a')
    writer.write('b')
    const flushed = writer.flush().then(() => states.push('flushed'))
    take()
    await Promise.resolve()
    states.push('half')
    take()
    await flushed

    expect(states).toEqual(['half', 'flushed'])
  })
})
