import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import type { TestMint } from '../../demo/test-mint.ts';
import { decodeInvoice } from '../../src/quotes/bolt11.ts';
import { eventually } from '../helpers/eventually.ts';
import { RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import { runNutpostCommand } from '../helpers/service/nutpost-process.ts';
import { type FailoverDeployment, startFailoverDeployment } from './failover-deployment.ts';

/**
 * With asynchronous replication, a promoted standby may lack the last transactions of the primary. The service must
 * not report anything wrong because of that, and must record again what the mints still know.
 */

vi.setConfig({ testTimeout: 300_000, hookTimeout: 120_000 });

const AMOUNT_SAT = 21;

const stack = new AsyncDisposableStack();
let deployment: FailoverDeployment;
let mint: TestMint;

beforeAll(async () => {
  deployment = await startFailoverDeployment(stack, 'asynchronous');
  [mint] = deployment.mints as [TestMint];
});

afterAll(() => stack.disposeAsync());

it('loses only what the new primary never received, and records payments again that were lost', async () => {
  const { cluster, processes, front } = deployment;
  const wallet = new RecipientClient(front.origin);
  const listedBefore = await requestInvoice(wallet);
  mint.pay(listedBefore.pr);
  const paidBefore = await requestInvoice(wallet);
  const unpaid = await requestInvoice(wallet);
  await eventually(async () => expect(await listRequests(wallet)).toEqual([listedBefore.pr]));

  const primary = await cluster.waitUntilHealthy();
  await cluster.stopReplication();
  // The new primary will know the quote of this payment, but not the payment.
  mint.pay(paidBefore.pr);
  // The new primary will not know these quotes.
  const lostAfterListing = await requestInvoice(wallet);
  mint.pay(lostAfterListing.pr);
  const lostBeforePayment = await requestInvoice(wallet);
  await eventually(async () => expect(await listRequests(wallet)).toHaveLength(3));
  const listedByPrimary = await wallet.listPaidQuotes();
  const watermark = Number(listedByPrimary[0]?.['paidAt']);
  const knownQuote = listedByPrimary.find(({ request }) => request === lostAfterListing.pr);

  await primary.kill();
  const newPrimary = await cluster.waitForOtherPrimary(primary);
  mint.pay(lostBeforePayment.pr);
  // The wallet redeems what it has read, because it needs only the mint for that.
  await mint.markIssued(String(knownQuote?.['quoteId']));
  await deployment.waitForServers(processes.length);

  for (const { verify } of [lostAfterListing, lostBeforePayment]) {
    expect((await requestJson(front.origin, new URL(verify).pathname)).body).toEqual({
      status: 'ERROR',
      reason: 'Not found',
    });
  }
  for (const { pr, verify } of [listedBefore, paidBefore, unpaid]) {
    const { body } = await requestJson(front.origin, new URL(verify).pathname);
    expect(body).toMatchObject({ status: 'OK', pr });
  }
  await eventually(async () =>
    expect(await listRequests(wallet)).toEqual([paidBefore.pr, listedBefore.pr]),
  );
  // A wallet that reads only later payments reads the payment again, and knows its quote.
  const later = await wallet.listPaidQuotes(watermark);
  expect(later.map(({ request }) => request)).toEqual([paidBefore.pr]);

  // The old primary discards what it did not send.
  primary.start();
  await cluster.waitUntilHealthy();
  mint.pay(unpaid.pr);
  const issuedAfter = await requestInvoice(wallet);
  mint.pay(issuedAfter.pr);
  await eventually(async () => expect(await listRequests(wallet)).toHaveLength(4));
  const expectedRequests = [listedBefore.pr, paidBefore.pr, unpaid.pr, issuedAfter.pr];
  expect((await listRequests(wallet)).toSorted()).toEqual(expectedRequests.toSorted());
  for (const node of [newPrimary, primary]) {
    await eventually(async () => {
      const rows = await node.query('select request, paid_seq from quotes', 'nutpost');
      expect(rows.map(({ request }) => request).toSorted()).toEqual(expectedRequests.toSorted());
      expect(rows.map(({ paid_seq }) => Number(paid_seq)).toSorted()).toEqual([1, 2, 3, 4]);
    });
  }
  expect(await deployment.takeProcessProblems()).toEqual([]);
  // The log of the service shows the operator what was lost.
  expect((await listLostPaymentHashes()).toSorted()).toEqual(
    [lostAfterListing, lostBeforePayment]
      .map(({ pr }) => decodeInvoice(pr)?.paymentHash)
      .toSorted(),
  );
});

async function listLostPaymentHashes(): Promise<(string | undefined)[]> {
  const { env, readLogs } = deployment;
  const created = /"event":"invoice_created","paymentHash":"(\w+)"/g;
  const lost: (string | undefined)[] = [];
  for (const [, paymentHash = ''] of (await readLogs()).matchAll(created)) {
    const { stdout } = await runNutpostCommand(['trace', '--json', paymentHash], env);
    if (JSON.parse(stdout).outcome === 'not_found') {
      lost.push(paymentHash);
    }
  }
  return lost;
}

async function requestInvoice({ origin, npub }: RecipientClient) {
  const path = `/.well-known/lnurlp/${npub}?amount=${AMOUNT_SAT * 1000}`;
  const { status, body } = await requestJson(origin, path);
  expect(status).toBe(200);
  return body as { pr: string; verify: string };
}

async function listRequests(wallet: RecipientClient): Promise<unknown[]> {
  return (await wallet.listPaidQuotes()).map(({ request }) => request);
}
