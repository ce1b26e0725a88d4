import { expect, it } from 'vitest';
import { FaultyDisk } from '../helpers/database/faulty-disk.ts';
import { eventually } from '../helpers/eventually.ts';
import { startTestMint } from '../helpers/mints/start-test-mint.ts';
import { RequestRepeater } from '../helpers/network/request-repeater.ts';
import {
  type ApiResponse,
  RecipientClient,
  requestJson,
} from '../helpers/recipients/recipient-client.ts';
import { NutpostProcess } from '../helpers/service/nutpost-process.ts';

/** The test waits for this many responses in each phase: before, during and after the full disk. */
const RESPONSES_PER_PHASE = 50;

const MAX_RESPONSE_MS = 5_000;

const UNAVAILABLE_RESPONSE = {
  status: 503,
  body: {
    status: 'ERROR',
    reason: 'The service is temporarily unavailable. Please try again.',
  },
};

it('recovers without a restart when a full disk has space again', async () => {
  const mint = await startTestMint();
  const disk = new FaultyDisk();
  const service = new NutpostProcess('serve', { ...disk.env, DEFAULT_MINT_URL: mint.url });
  const url = await service.waitForUrl();
  // Without PUBLIC_ORIGINS, the service expects signatures for localhost.
  const wallet = new RecipientClient(url.replace('127.0.0.1', 'localhost'));
  const firstInvoice = await requestInvoice(wallet);
  const invoices = [firstInvoice];
  const payer = new RequestRepeater(UNAVAILABLE_RESPONSE, async () => {
    const response = await requestInvoice(wallet);
    invoices.push(...(response.status === 200 ? [response] : []));
    return response;
  });
  const reader = new RequestRepeater(null, () => wallet.get('/api/v2/wallet/quotes'));
  const supervisor = new RequestRepeater(null, () => requestJson(url, '/health/live'));

  await payer.waitForSuccesses(RESPONSES_PER_PHASE);
  disk.simulateFull();
  await payer.waitForFailures(RESPONSES_PER_PHASE);
  expect(service.stdout).toContain('"event":"database_unavailable"');
  await eventually(async () => {
    expect(await requestJson(url, '/health/ready')).toMatchObject({
      status: 503,
      body: { checks: { database: 'failing' } },
    });
  });
  mint.pay(firstInvoice.body.pr);
  await reader.waitForSuccesses(RESPONSES_PER_PHASE);
  await supervisor.waitForSuccesses(1);
  // Reads succeed while each renewal of the lease fails.
  await eventually(() =>
    expect(countEvents(service, 'database_unavailable')).toBeGreaterThanOrEqual(2),
  );
  expect(countEvents(service, 'watcher_database_failed')).toBe(1);
  expect(countEvents(service, 'watcher_database_recovered')).toBe(0);

  disk.clearFull();
  await payer.waitForSuccesses(RESPONSES_PER_PHASE);
  await eventually(async () => expect((await requestJson(url, '/health/ready')).status).toBe(200));
  for (const repeater of [payer, reader, supervisor]) {
    await repeater.stop();
    expect(repeater.slowestResponseMs).toBeLessThan(MAX_RESPONSE_MS);
  }
  const verify = async ({ body }: ApiResponse) =>
    (await requestJson(url, new URL(body.verify).pathname)).body;
  for (const invoice of invoices) {
    expect(await verify(invoice)).toMatchObject({ pr: invoice.body.pr });
  }
  await eventually(async () => expect((await verify(firstInvoice)).settled).toBe(true));
  await eventually(() => expect(countEvents(service, 'watcher_database_recovered')).toBe(1));
  expect(await service.stop()).toMatchObject({ code: 0 });
});

it('ends a command and a restart with a one-sentence error on a full disk', async () => {
  const disk = new FaultyDisk();
  const service = new NutpostProcess('serve', disk.env);
  const url = await service.waitForUrl();
  disk.simulateFull();
  const command = new NutpostProcess(`user block ${new RecipientClient(url).npub}`, disk.env);
  expect(await command.waitForExit()).toEqual({
    code: 1,
    signal: null,
    stderr: 'The database is unavailable: database or disk is full.\n',
  });
  await service.kill();
  const restart = await new NutpostProcess('serve', disk.env).waitForExit();
  // It depends on the disk whether the lock file of DATA_DIR or the database fails first.
  expect(restart.stderr).toMatch(
    /^(DATA_DIR: \S+ cannot be used \(database or disk is full\)|The database is unavailable: database or disk is full)\.\n$/,
  );
  expect(restart.code).toBe(1);
});

function countEvents({ stdout }: NutpostProcess, event: string): number {
  return stdout.split(`"event":"${event}"`).length - 1;
}

function requestInvoice({ origin, npub }: RecipientClient): Promise<ApiResponse> {
  return requestJson(origin, `/.well-known/lnurlp/${npub}?amount=21000`);
}
