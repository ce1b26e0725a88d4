import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { createServer, type ServerResponse } from 'node:http';
import { Session } from 'node:inspector/promises';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { WebSocketServer } from 'ws';
import { createEgress, type Egress } from '../../src/net/egress.ts';
import type { NetworkThreadStop } from '../../src/net/network-thread.ts';
import { NETWORK_THREAD_FILE } from '../../src/net/network-thread-worker.ts';
import { measureSlowness } from '../helpers/machine-slowness.ts';
import { startTestMint } from '../helpers/mints/start-test-mint.ts';
import { type LoopbackServer, listenOnLoopback } from '../helpers/network/loopback-server.ts';
import { createTestEnvironment, setMint } from '../helpers/service/test-environment.ts';

/** On a usual machine. */
const MAX_RECOVERY_MS = 3_000;

const FIRST_SUSPENSION_MS = 10_000;

const PAYMENTS = 5;

const RESTARTS = 60;

/** Caches and allocators keep some memory. A leak of the threads' heaps takes much more. */
const ALLOWED_GROWTH_BYTES = 64 * 1024 * 1024;
const ALLOWED_FILE_DESCRIPTORS = 10;

const BLOCK = 'setImmediate(() => { for (;;); })';
const EXHAUST_MEMORY =
  'setImmediate(() => { for (const lists = []; ; ) lists.push(new Array(10_000).fill(1.5)); })';

const DAMAGES: [string, () => Promise<unknown> | undefined][] = [
  ['is blocked', () => evaluateInWorker(BLOCK)],
  ['runs out of memory', () => evaluateInWorker(EXHAUST_MEMORY)],
  ['is killed', () => worker?.terminate()],
];

let egress: Egress;
let site: LoopbackServer;
let otherSite: LoopbackServer;
let bystander: LoopbackServer;
let worker: Worker | null;
let nowMs = 0;
const stops: NetworkThreadStop[] = [];

type EgressFetch = ReturnType<Egress['createFetch']>;

const onWorker = (started: Worker) => {
  worker = started;
};

beforeEach(async () => {
  process.on('worker', onWorker);
  [site, otherSite, bystander] = [await startSite(), await startSite(), await startSite()];
  nowMs = 0;
  stops.length = 0;
  egress = createTestEgress([]);
});
afterEach(async () => {
  process.off('worker', onWorker);
  await egress.close();
  await Promise.all([site, otherSite, bystander].map((each) => each.close()));
});

describe.each(DAMAGES)('the network thread %s', (_case, damage) => {
  // Other load can only increase the times, so one successful attempt is enough.
  it('is replaced within three seconds, without an effect on the main thread', {
    retry: 2,
  }, async () => {
    const fetch = egress.createFetch();
    const socket = egress.connect(`${otherSite.url.replace('http', 'ws')}/`);
    await once(socket, 'open');
    await fetch.request({ url: site.url });
    const pending = fetch.request({ url: `${otherSite.url}/never` });
    const closed = once(socket, 'close');
    const delays = monitorEventLoopDelay({ resolution: 1 });
    delays.enable();
    const startedAtMs = performance.now();
    void damage();
    expect(await pending).toEqual({ outcome: 'unreachable', reason: 'timed out' });
    await closed;
    await expectResponse(fetch, bystander);
    const recoveryMs = performance.now() - startedAtMs;
    delays.disable();
    expect(recoveryMs).toBeLessThan(MAX_RECOVERY_MS * measureSlowness());
    expect(delays.max / 1e6).toBeLessThan(100);
  });
});

it('survives when the largest responses of many requests end at the same time', async () => {
  const REQUESTS = 15;
  // A character outside of Latin-1 doubles the memory of a string.
  const body = Buffer.from(JSON.stringify('€'.padEnd(4_000_000)));
  const pending: ServerResponse[] = [];
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-length': body.length });
    response.write(body.subarray(0, -1), () => {
      if (pending.push(response) === REQUESTS) {
        pending.forEach((each) => void each.end(body.subarray(-1)));
      }
    });
  });
  const { url, close } = await listenOnLoopback(server);
  onTestFinished(close);
  const fetch = egress.createFetch();
  const responses = await Promise.all(
    Array.from({ length: REQUESTS }, () => fetch.request({ url })),
  );
  expect(stops).toEqual([]);
  expect(responses.some(({ outcome }) => outcome === 'responded')).toBe(true);
  for (const response of responses) {
    expect(response.outcome === 'responded' || response.reason === 'response too large').toBe(true);
  }
});

it('suspends the site that blocked the network thread, for twice as long each time', async () => {
  const fetch = egress.createFetch();
  const suspended = { outcome: 'unreachable', reason: 'site suspended', isUnsent: true };
  for (const durationMs of [FIRST_SUSPENSION_MS, 2 * FIRST_SUSPENSION_MS]) {
    await fetch.request({ url: otherSite.url });
    await evaluateInWorker('JSON.parse = () => { for (;;); };');
    await fetch.request({ url: site.url });
    expect(await fetch.request({ url: site.url })).toEqual(suspended);
    const [reason] = await once(egress.connect(site.url.replace('http', 'ws')), 'close');
    expect(reason).toEqual({ reason: 'site suspended', status: null });
    await expectResponse(fetch, otherSite);
    const stop = { site: new URL(site.url).host, suspendedMs: durationMs };
    expect(stops.at(-1)).toMatchObject(stop);
    nowMs += durationMs - 1;
    expect(await fetch.request({ url: site.url })).toEqual(suspended);
    nowMs += 1;
  }
  await expectResponse(fetch, site);
});

it('starts with the first host that the operator did not name', async () => {
  const operatorEgress = createTestEgress([site.url]);
  const fetch = operatorEgress.createFetch();
  worker = null;
  await fetch.request({ url: site.url });
  await once(operatorEgress.connect(site.url.replace('http', 'ws')), 'open');
  expect(worker).toBeNull();
  await fetch.request({ url: otherSite.url });
  expect(worker).not.toBeNull();
  await operatorEgress.close();
});

it('loses no payment at a mint of a user if the network thread is blocked', async () => {
  const environment = await createTestEnvironment();
  onTestFinished(() => environment.close());
  const mint = await startTestMint();
  const wallet = environment.newWallet();
  await setMint(wallet, mint.url);
  const socket = await wallet.openSocket();
  const invoices = await Promise.all(
    Array.from({ length: PAYMENTS }, () => environment.requestInvoice(wallet, 1)),
  );
  await evaluateInWorker(BLOCK);
  for (const { pr } of invoices) {
    mint.pay(pr);
  }
  const updates = invoices.map(async () => (await socket.nextMessage()).payload.quoteId);
  expect(new Set(await Promise.all(updates)).size).toBe(PAYMENTS);
  expect(await wallet.listPaidQuotes()).toHaveLength(PAYMENTS);
  await socket.close();
});

it('suspends no site if the network thread dies while it is idle', async () => {
  const fetch = egress.createFetch();
  await fetch.request({ url: site.url });
  // Two heartbeats later, it is idle.
  await evaluateInWorker('setTimeout(process.exit, 500)');
  await expect.poll(() => stops).toMatchObject([{ site: null, suspendedMs: 0 }]);
  await expectResponse(fetch, site);
});

it(`leaks nothing when it is replaced ${RESTARTS} times`, async () => {
  const fetch = egress.createFetch();
  let before = { bytes: 0, fileDescriptors: 0 };
  for (let i = 0; i < RESTARTS; i += 1) {
    nowMs += 1e9;
    // The others are killed as they start.
    const isAnswered = i % 5 === 0;
    const started = once(process, 'worker');
    const response = fetch.request({ url: site.url });
    const [thread] = await started;
    await (isAnswered ? response : once(thread, 'online'));
    await thread.terminate();
    expect((await response).outcome).toBe(isAnswered ? 'responded' : 'unreachable');
    // The memory grows at first.
    if (i === RESTARTS / 3) {
      before = await measureResources();
    }
  }
  const after = await measureResources();
  expect(after.bytes).toBeLessThan(before.bytes + ALLOWED_GROWTH_BYTES);
  expect(after.fileDescriptors).toBeLessThan(before.fileDescriptors + ALLOWED_FILE_DESCRIPTORS);
});

function createTestEgress(operatorUrls: readonly string[]): Egress {
  return createEgress({
    // The port is a part of the site.
    allowPrivateNetworks: true,
    operatorUrls,
    monotonicMs: () => nowMs,
    onNetworkThreadStopped: (stop) => stops.push(stop),
  });
}

async function expectResponse(fetch: EgressFetch, { url }: LoopbackServer): Promise<void> {
  expect(await fetch.request({ url })).toMatchObject({ status: 200 });
}

async function startSite(): Promise<LoopbackServer> {
  const server = createServer((request, response) => {
    if (request.url !== '/never') {
      response.end('{}');
    }
  });
  new WebSocketServer({ server });
  return listenOnLoopback(server);
}

/** Runs JavaScript in the network thread, like a bug or a native library that does not return. */
async function evaluateInWorker(expression: string): Promise<void> {
  const session = new Session();
  session.connect();
  const attached = Promise.withResolvers<string>();
  session.on('NodeWorker.attachedToWorker', ({ params: { sessionId, workerInfo } }) => {
    if (workerInfo.url === String(NETWORK_THREAD_FILE)) {
      attached.resolve(sessionId);
    }
  });
  const replied = once(session, 'NodeWorker.receivedMessageFromWorker');
  await session.post('NodeWorker.enable', { waitForDebuggerOnStart: false });
  const sessionId = await attached.promise;
  const message = JSON.stringify({ id: 1, method: 'Runtime.evaluate', params: { expression } });
  await session.post('NodeWorker.sendMessageToWorker', { sessionId, message });
  await replied;
  session.disconnect();
}

async function measureResources() {
  const fileDescriptors = (await readdir('/proc/self/fd')).length;
  return { bytes: process.memoryUsage.rss(), fileDescriptors };
}
