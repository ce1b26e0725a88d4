import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { TestMint } from '../../../src/demo/test-mint.ts';
import { ServiceProcess } from '../../faults/service-process.ts';
import { lastingPorts } from '../../faults/site.ts';
import { request, TestWallet } from '../../helpers/wallet.ts';
import { type Holdings, InspectedProcess } from './inspected-process.ts';

const MEBIBYTE = 1024 * 1024;

/**
 * What is learnt in a storm and kept on purpose (code that was compiled, caches with a bound of their
 * own, counters by address) is less than this; a thousand leaked connections are more.
 */
const KEPT_HEAP_BYTES = 16 * MEBIBYTE;

/** Allocators and the embedded database's own memory give back little of what they once had. */
const KEPT_RESIDENT_BYTES = 96 * MEBIBYTE;

/** Those of good clients come and go, and the service's own to mints. */
const KEPT_CONNECTIONS = 90;

/** What is over is noticed by timers of up to half a minute. */
const LET_GO_WITHIN_MS = 40_000;
const LET_GO_POLL_MS = 250;

/** A payment is told at once; a busy machine may take its time. */
const TOLD_WITHIN_MS = 20_000;

/** The program in a process of its own on the embedded database, with a mint in ours. */
export class Stage implements AsyncDisposable {
  readonly mint: TestMint;
  readonly origin: string;
  readonly port: number;
  readonly pid: number;
  readonly #folder: string;
  readonly #process: ServiceProcess;
  readonly #inspected: InspectedProcess;
  readonly #deaths: readonly string[];

  /** @param env settings beside those that a service needs; without any, all limits are the usual ones */
  static async open(env: Record<string, string>): Promise<Stage> {
    const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-storm-'));
    const mint = await TestMint.start();
    const deaths: string[] = [];
    const [port] = (await lastingPorts(1)) as [number];
    const process = new ServiceProcess({
      name: 'nutpost',
      port,
      folder,
      env: {
        DEFAULT_MINT_URL: mint.url,
        ALLOW_PRIVATE_NETWORKS: 'true',
        PUBLIC_ORIGINS: `http://127.0.0.1:${port}`,
        DATA_DIR: path.join(folder, 'data'),
        ...InspectedProcess.ENV,
        ...env,
      },
      onDeath: (description) => deaths.push(description),
    });
    process.start();
    await process.ready();
    const inspected = await InspectedProcess.of(process.logFile);
    return new Stage({ folder, mint, process, inspected, deaths });
  }

  private constructor(parts: {
    folder: string;
    mint: TestMint;
    process: ServiceProcess;
    inspected: InspectedProcess;
    deaths: readonly string[];
  }) {
    this.mint = parts.mint;
    this.origin = parts.process.origin;
    this.port = Number(new URL(parts.process.origin).port);
    this.pid = parts.inspected.pid;
    this.#folder = parts.folder;
    this.#process = parts.process;
    this.#inspected = parts.inspected;
    this.#deaths = parts.deaths;
  }

  /** What the process keeps now. */
  holdings(): Promise<Holdings> {
    return this.#inspected.holdings();
  }

  /**
   * Waits until the process has let go of what came after `before`, or its time to do so is over.
   *
   * @returns what it keeps then, and what is too much of that
   */
  async letGo(before: Holdings): Promise<{ after: Holdings; problems: string[] }> {
    const deadline = Date.now() + LET_GO_WITHIN_MS;
    for (;;) {
      const after = await this.holdings();
      const problems = tooMuch(before, after);
      if (problems.length === 0 || Date.now() > deadline) {
        return { after, problems };
      }
      await delay(LET_GO_POLL_MS);
    }
  }

  /** What an operator would have to look at: ends that nobody asked for, errors, stray output. */
  async complaints(): Promise<string[]> {
    const lines = await this.#process.complaints();
    return [...this.#deaths, ...lines.filter((line) => !InspectedProcess.isInspectorLine(line))];
  }

  /**
   * A whole payment, as ever: discovery, invoice, payment, update on the socket, list.
   *
   * @throws where any of it is not as it should be
   */
  async wholePayment(): Promise<void> {
    const wallet = new TestWallet(this.origin);
    const signal = AbortSignal.timeout(TOLD_WITHIN_MS);
    const address = `${this.origin}/.well-known/lnurlp/${wallet.npub}`;
    const discovery = await request(address, '', { signal });
    const invoice = await request(discovery.body.callback, '?amount=21000', { signal });
    const socket = await wallet.openSocket();
    const { id } = this.mint.pay(invoice.body.pr);
    const late = delay(TOLD_WITHIN_MS, null, { ref: false });
    const update = await Promise.race([socket.next(), late]);
    await socket.close();
    const quotes = await wallet.listQuotes();
    const verified = await request(invoice.body.verify, '', { signal });
    const seen = [
      update?.type,
      update?.payload.quoteId,
      quotes.map((each) => each['quoteId']).join(),
      verified.body.settled,
    ];
    if (JSON.stringify(seen) !== JSON.stringify(['update', id, id, true])) {
      throw new Error(`a payment went wrong: ${seen.join(' ')} instead of ${id}`);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#process.kill();
    await this.mint.close();
    await rm(this.#folder, { recursive: true, force: true });
  }
}

/** `12 MiB of objects, 140 MiB resident, 3 connections` */
export function describeHoldings({ heapBytes, residentBytes, connections }: Holdings): string {
  return `${mebibytes(heapBytes)} of objects, ${mebibytes(residentBytes)} resident, ${connections} connections`;
}

function tooMuch(before: Holdings, after: Holdings): string[] {
  const problems: string[] = [];
  if (after.connections > before.connections + KEPT_CONNECTIONS) {
    problems.push(`connections: ${before.connections} before, ${after.connections} after`);
  }
  for (const [name, field, kept] of [
    ['objects', 'heapBytes', KEPT_HEAP_BYTES],
    ['resident', 'residentBytes', KEPT_RESIDENT_BYTES],
  ] as const) {
    if (after[field] > before[field] + kept) {
      problems.push(
        `${name}: ${mebibytes(before[field])} before, ${mebibytes(after[field])} after`,
      );
    }
  }
  return problems;
}

function mebibytes(bytes: number): string {
  return `${Math.round(bytes / MEBIBYTE)} MiB`;
}
