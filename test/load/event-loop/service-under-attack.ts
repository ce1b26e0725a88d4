import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { WebSocket } from 'ws';
import { TestMint } from '../../../demo/test-mint.ts';
import { RecipientClient, requestJson } from '../../helpers/recipients/recipient-client.ts';
import { findStablePorts, ServiceProcess } from '../../helpers/service/service-process.ts';

/** Starts to measure the delays of the service's event loop. The first tick of the measurement records nothing. */
const MEASURE_EVENT_LOOP = `(() => {
  const { monitorEventLoopDelay } = process.getBuiltinModule('node:perf_hooks');
  globalThis.eventLoopDelay?.disable();
  globalThis.eventLoopDelay = monitorEventLoopDelay({ resolution: 1 });
  globalThis.eventLoopDelay.enable();
  return new Promise((resolve) => setTimeout(resolve, 2));
})()`;

export type ServiceUnderAttack = Awaited<ReturnType<typeof startServiceUnderAttack>>;

export async function startServiceUnderAttack(env: Record<string, string>) {
  const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-attack-'));
  const mint = await TestMint.start();
  const [port] = (await findStablePorts(1)) as [number];
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
    onUnexpectedExit: (description) => {
      throw new Error(description);
    },
  });
  service.start();
  await service.waitUntilReady();
  const { origin } = service;
  const log = await readFile(service.logFile, 'utf8');
  const inspectorUrl = /^Debugger listening on (ws:\S+)$/m.exec(log)?.[1] ?? '';

  async function callInspector(...calls: [method: string, params?: object][]) {
    const inspector = new WebSocket(inspectorUrl);
    await once(inspector, 'open');
    // biome-ignore lint/suspicious/noExplicitAny: each method has its own result.
    let result: any;
    for (const [method, params = {}] of calls) {
      inspector.send(JSON.stringify({ id: 1, method, params }));
      const [data] = await once(inspector, 'message');
      result = JSON.parse(String(data)).result;
    }
    inspector.terminate();
    return result;
  }

  async function measureEventLoopDelayMs(action: () => Promise<unknown>): Promise<number> {
    await callInspector([
      'Runtime.evaluate',
      { expression: MEASURE_EVENT_LOOP, awaitPromise: true },
    ]);
    await action();
    // The delay is recorded in the next turn of the event loop, before the response to this request.
    await requestJson(origin, '/health/live');
    const expression = 'eventLoopDelay.max';
    const { result } = await callInspector(['Runtime.evaluate', { expression }]);
    return result.value / 1e6;
  }

  async function runPaymentFlow(): Promise<void> {
    const wallet = new RecipientClient(origin);
    const discovery = await requestJson(origin, `/.well-known/lnurlp/${wallet.npub}`);
    const invoice = await requestJson(discovery.body.callback, '?amount=21000');
    const socket = await wallet.openSocket();
    const { id } = mint.pay(invoice.body.pr);
    const timeout = delay(20_000, null, { ref: false });
    const update = await Promise.race([socket.nextMessage(), timeout]);
    await socket.close();
    const [quote] = await wallet.listPaidQuotes();
    const verified = await requestJson(invoice.body.verify, '');
    const observed = [update?.payload?.quoteId, quote?.['quoteId'], verified.body.settled];
    if (observed.join() !== [id, id, true].join()) {
      throw new Error(`the payment failed: observed ${observed.join(' ')}, expected quote ${id}`);
    }
  }

  async function close(): Promise<void> {
    await service.kill();
    await mint.close();
    await rm(folder, { recursive: true, force: true });
  }

  return {
    mint,
    origin,
    pid: service.pid ?? 0,
    measureEventLoopDelayMs,
    runPaymentFlow,
    close,
  };
}
