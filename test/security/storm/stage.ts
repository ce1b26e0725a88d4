import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { WebSocket } from 'ws';
import { TestMint } from '../../../demo/test-mint.ts';
import { ServiceProcess } from '../../faults/service-process.ts';
import { lastingPorts } from '../../faults/site.ts';
import { request, TestWallet } from '../../helpers/wallet.ts';

/** What a process holds after a garbage collection. Bytes. */
export interface Holdings {
  /** JavaScript objects, and buffers outside of the heap. */
  heapBytes: number;
  residentBytes: number;
  connections: number;
}

const MEBIBYTE = 1024 * 1024;

/** What may remain after an attack: compiled code, bounded caches, memory that allocators keep. */
const KEPT: Holdings = {
  heapBytes: 16 * MEBIBYTE,
  residentBytes: 96 * MEBIBYTE,
  // Connections of good clients, and the service's own to mints.
  connections: 90,
};

/** Timers of up to half a minute release what an attack left. */
const LET_GO_WITHIN_MS = 40_000;
const LET_GO_POLL_MS = 250;

const UPDATED_WITHIN_MS = 20_000;

/** What Node prints if it can be inspected. */
const INSPECTOR_LINE = /^(Debugger |For help, see: https:\/\/nodejs\.org)/;

const READ_HOLDINGS = `(() => {
  const { heapUsed, external, rss } = process.memoryUsage();
  const sockets = process.getActiveResourcesInfo().filter((each) => each === 'TCPSocketWrap');
  return JSON.stringify({
    heapBytes: heapUsed + external, residentBytes: rss, connections: sockets.length,
  });
})()`;

export type Stage = Awaited<ReturnType<typeof openStage>>;

/**
 * Starts the program in a process of its own on SQLite, with a mint in this process.
 *
 * @param env settings besides the required ones
 */
export async function openStage(env: Record<string, string>) {
  const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-storm-'));
  const mint = await TestMint.start();
  const deaths: string[] = [];
  const [port] = (await lastingPorts(1)) as [number];
  const service = new ServiceProcess({
    name: 'nutpost',
    port,
    folder,
    env: {
      DEFAULT_MINT_URL: mint.url,
      ALLOW_PRIVATE_NETWORKS: 'true',
      PUBLIC_ORIGINS: `http://127.0.0.1:${port}`,
      DATA_DIR: path.join(folder, 'data'),
      NODE_OPTIONS: '--inspect=127.0.0.1:0',
      ...env,
    },
    onDeath: (description) => deaths.push(description),
  });
  service.start();
  await service.ready();
  const { origin } = service;
  const log = await readFile(service.logFile, 'utf8');
  const inspectorUrl = /^Debugger listening on (ws:\S+)$/m.exec(log)?.[1] ?? '';

  /** Collects garbage, and reads what the process still holds. */
  async function holdings(): Promise<Holdings> {
    const inspector = new WebSocket(inspectorUrl);
    await once(inspector, 'open');
    const ask = async (method: string, params: object = {}) => {
      inspector.send(JSON.stringify({ id: 1, method, params }));
      const [data] = await once(inspector, 'message');
      return JSON.parse(String(data)).result;
    };
    // What finalizers release after the first collection is gone after the second.
    await ask('HeapProfiler.collectGarbage');
    await ask('HeapProfiler.collectGarbage');
    const answer = await ask('Runtime.evaluate', { expression: READ_HOLDINGS });
    inspector.terminate();
    return JSON.parse(answer.result.value) as Holdings;
  }

  /** Waits until the process has released what it took after `before`. @returns what it did not */
  async function letGo(before: Holdings): Promise<string[]> {
    const deadline = Date.now() + LET_GO_WITHIN_MS;
    for (;;) {
      const after = await holdings();
      const kept = (Object.keys(KEPT) as (keyof Holdings)[]).filter(
        (field) => after[field] > before[field] + KEPT[field],
      );
      if (kept.length === 0 || Date.now() > deadline) {
        return kept.map((field) => `${field}: ${before[field]} before, ${after[field]} after`);
      }
      await delay(LET_GO_POLL_MS);
    }
  }

  /** Returns unexpected exits, logged errors and stray output. */
  async function complaints(): Promise<string[]> {
    const lines = await service.complaints();
    return [...deaths, ...lines.filter((line) => !INSPECTOR_LINE.test(line))];
  }

  /** Discovery, invoice, payment, update, list and verify URL. @throws if a step fails */
  async function wholePayment(): Promise<void> {
    const wallet = new TestWallet(origin);
    const discovery = await request(origin, `/.well-known/lnurlp/${wallet.npub}`);
    const invoice = await request(discovery.body.callback, '?amount=21000');
    const socket = await wallet.openSocket();
    const { id } = mint.pay(invoice.body.pr);
    const late = delay(UPDATED_WITHIN_MS, null, { ref: false });
    const update = await Promise.race([socket.next(), late]);
    await socket.close();
    const [quote] = await wallet.listQuotes();
    const verified = await request(invoice.body.verify, '');
    const seen = [update?.payload?.quoteId, quote?.['quoteId'], verified.body.settled];
    if (seen.join() !== [id, id, true].join()) {
      throw new Error(`a payment went wrong: ${seen.join(' ')} instead of ${id}`);
    }
  }

  async function close(): Promise<void> {
    await service.kill();
    await mint.close();
    await rm(folder, { recursive: true, force: true });
  }

  return { mint, origin, port, holdings, letGo, complaints, wholePayment, close };
}
