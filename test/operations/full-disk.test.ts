import { expect, it, vi } from 'vitest';
import { FaultyDisk } from '../helpers/faulty-disk.ts';
import { startMint } from '../helpers/mints.ts';
import { NutpostProcess } from '../helpers/nutpost-process.ts';
import { RepeatingClient } from '../helpers/repeating-client.ts';
import { type ApiAnswer, request, TestWallet } from '../helpers/wallet.ts';

const PAYERS = 4;
const READERS = 2;

/** Of each client, before the disk is full, while it is, and afterwards. */
const ANSWERS = 15;

/** An answer that takes longer counts as a hang, also on a busy machine. */
const ANSWER_WITHIN_MS = 5_000;

/** Readiness follows the next write, and a mint is asked again about its quotes. */
const RECOVERY_MS = 30_000;

const UNAVAILABLE = {
  status: 500,
  body: {
    status: 'ERROR',
    reason: 'The service is temporarily unavailable. Please try again.',
  },
};

const LIST = '/api/v2/wallet/quotes';

it('goes on without a restart when there is room again', async () => {
  const mint = await startMint();
  const disk = new FaultyDisk();
  const service = new NutpostProcess('serve', { ...disk.env, DEFAULT_MINT_URL: mint.url });
  const url = await service.listening();
  const wallet = new TestWallet(await service.origin());
  const ask = (path: string, init: RequestInit = {}): Promise<ApiAnswer> =>
    request(url, path, { ...init, signal: AbortSignal.timeout(ANSWER_WITHIN_MS) });
  const invoices: { pr: string; verify: string }[] = [];
  const pay = async () => {
    const answer = await ask(`/.well-known/lnurlp/${wallet.npub}?amount=21000`);
    if ('pr' in answer.body) {
      invoices.push(answer.body);
    }
    return answer;
  };
  const list = () => ask(LIST, { headers: { authorization: wallet.sign(LIST) } });
  const payers = Array.from({ length: PAYERS }, () => new RepeatingClient(UNAVAILABLE, pay));
  const others = [
    ...Array.from({ length: READERS }, () => new RepeatingClient(null, list)),
    new RepeatingClient(null, () => ask('/health/live')),
  ];
  const ready = () => ask('/health/ready');
  const verified = async ({ verify }: { verify: string }) =>
    (await ask(new URL(verify).pathname)).body;

  await Promise.all(payers.map((payer) => payer.succeeds(ANSWERS)));
  const [early = expect.fail('there is no invoice')] = invoices;
  disk.fill();
  await Promise.all(payers.map((payer) => payer.fails(ANSWERS)));
  expect(service.stdout).toContain('"event":"database_unavailable"');
  await vi.waitFor(async () => {
    expect(await ready()).toMatchObject({
      status: 503,
      body: { checks: { database: 'failing' } },
    });
  }, RECOVERY_MS);
  mint.pay(early.pr);
  await Promise.all(others.map((client) => client.succeeds(ANSWERS)));

  disk.free();
  await Promise.all(payers.map((payer) => payer.succeeds(ANSWERS)));
  await vi.waitFor(async () => expect((await ready()).status).toBe(200), RECOVERY_MS);
  await Promise.all([...payers, ...others].map((client) => client.stop()));
  for (const invoice of invoices) {
    expect(await verified(invoice)).toMatchObject({ pr: invoice.pr });
  }
  await vi.waitFor(async () => expect((await verified(early)).settled).toBe(true), RECOVERY_MS);
  expect(await service.stop()).toMatchObject({ code: 0 });
});

it('refuses to start on a full disk with one sentence', async () => {
  const disk = new FaultyDisk();
  disk.fill();
  const { code, stderr } = await new NutpostProcess('serve', disk.env).ended();
  expect(stderr).toMatch(/^DATA_DIR: \S+ cannot be used \(database or disk is full\)\.\n$/);
  expect(code).toBe(1);
});
