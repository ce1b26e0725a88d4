import { setTimeout as delay } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { FaultyDisk } from '../helpers/database/faulty-disk.ts';
import { eventually } from '../helpers/eventually.ts';
import { startTestMint } from '../helpers/mints/start-test-mint.ts';
import { RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import { NutpostProcess } from '../helpers/service/nutpost-process.ts';

const PAYER_COUNT = 4;
const READER_COUNT = 2;
const REQUEST_DELAY_MS = 10;

/** The test waits for this many responses in each phase: before, during and after the full disk. */
const RESPONSES_PER_PHASE = 50;

const RESPONSE_TIMEOUT_MS = 5_000;

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
  const traffic = new SimulatedTraffic(url);

  await traffic.waitForResponses('invoices', RESPONSES_PER_PHASE);
  const [firstInvoice] = traffic.invoices as [Invoice];
  disk.simulateFull();
  await traffic.waitForResponses('rejections', RESPONSES_PER_PHASE);
  expect(service.stdout).toContain('"event":"database_unavailable"');
  await eventually(async () => {
    expect(await requestJson(url, '/health/ready')).toMatchObject({
      status: 503,
      body: { checks: { database: 'failing' } },
    });
  });
  mint.pay(firstInvoice.pr);
  await traffic.waitForResponses('lists', RESPONSES_PER_PHASE);
  // Reads succeed while each renewal of the lease fails.
  await eventually(() =>
    expect(countEvents(service, 'database_unavailable')).toBeGreaterThanOrEqual(2),
  );
  expect(countEvents(service, 'watcher_database_failed')).toBe(1);
  expect(countEvents(service, 'watcher_database_recovered')).toBe(0);

  disk.clearFull();
  await traffic.waitForResponses('invoices', RESPONSES_PER_PHASE);
  await eventually(async () => expect((await requestJson(url, '/health/ready')).status).toBe(200));
  await traffic.stop();
  for (const { pr, verify } of traffic.invoices) {
    expect((await requestJson(url, new URL(verify).pathname)).body).toMatchObject({ pr });
  }
  await eventually(async () => {
    const { body } = await requestJson(url, new URL(firstInvoice.verify).pathname);
    expect(body.settled).toBe(true);
  });
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

interface Invoice {
  pr: string;
  verify: string;
}

/** Requests of payers, wallets and a supervisor, repeated until the end. Fails if a response is late or unexpected. */
class SimulatedTraffic {
  readonly invoices: Invoice[] = [];
  readonly #counts = { invoices: 0, rejections: 0, lists: 0, livenessChecks: 0 };
  readonly #url: string;
  readonly #wallet: RecipientClient;
  readonly #loops: Promise<unknown>;
  #isOver = false;

  constructor(url: string) {
    this.#url = url;
    // Without PUBLIC_ORIGINS, the service expects signatures for localhost.
    this.#wallet = new RecipientClient(url.replace('127.0.0.1', 'localhost'));
    this.#loops = Promise.all([
      ...Array.from({ length: PAYER_COUNT }, () => this.#repeat(() => this.#requestInvoice())),
      ...Array.from({ length: READER_COUNT }, () => this.#repeat(() => this.#listQuotes())),
      this.#repeat(() => this.#checkLiveness()),
    ]);
    onTestFinished(() => {
      this.#isOver = true;
    });
  }

  /** Waits for this many more responses of a kind, and for another liveness check. */
  async waitForResponses(kind: 'invoices' | 'rejections' | 'lists', count: number): Promise<void> {
    const before = { ...this.#counts };
    const responses = eventually(() => {
      expect(this.#counts[kind]).toBeGreaterThanOrEqual(before[kind] + count);
      expect(this.#counts.livenessChecks).toBeGreaterThan(before.livenessChecks);
    });
    await Promise.race([responses, this.#loops]);
    await responses;
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#loops;
  }

  async #repeat(sendRequest: () => Promise<void>): Promise<void> {
    while (!this.#isOver) {
      await sendRequest();
      await delay(REQUEST_DELAY_MS);
    }
  }

  async #requestInvoice(): Promise<void> {
    const { status, body } = await this.#request(
      `/.well-known/lnurlp/${this.#wallet.npub}?amount=21000`,
    );
    if ('pr' in body) {
      this.invoices.push(body);
      this.#counts.invoices += 1;
    } else {
      expect({ status, body }).toEqual(UNAVAILABLE_RESPONSE);
      this.#counts.rejections += 1;
    }
  }

  async #listQuotes(): Promise<void> {
    const listPath = '/api/v2/wallet/quotes';
    const headers = { authorization: this.#wallet.signRequest(listPath) };
    expect((await this.#request(listPath, { headers })).status).toBe(200);
    this.#counts.lists += 1;
  }

  async #checkLiveness(): Promise<void> {
    expect((await this.#request('/health/live')).status).toBe(200);
    this.#counts.livenessChecks += 1;
  }

  #request(path: string, init: RequestInit = {}) {
    return requestJson(this.#url, path, {
      ...init,
      signal: AbortSignal.timeout(RESPONSE_TIMEOUT_MS),
    });
  }
}
