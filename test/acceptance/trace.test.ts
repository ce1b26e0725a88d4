import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { TestMintQuote } from '../../demo/test-mint/quotes.ts';
import type { TestMint } from '../../demo/test-mint.ts';
import type { CommandResult } from '../../src/operator/command.ts';
import { decodeInvoice } from '../../src/quotes/bolt11.ts';
import { eventually } from '../helpers/eventually.ts';
import { assignUsername } from '../helpers/recipients/assign-username.ts';
import { type RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import { startFakeRelay } from '../helpers/relays/start-fake-relay.ts';
import {
  buildZapQuery,
  createZapRequest,
  TEST_ZAP_SECRET_KEY,
} from '../helpers/relays/zap-requests.ts';
import { runOperatorCommand } from '../helpers/service/run-operator-command.ts';
import {
  assignNewTestMint,
  createTestEnvironment,
  setLockQuotes,
  type TestEnvironment,
} from '../helpers/service/test-environment.ts';

/** The service records an update shortly after it sends the update. */
const RECORD_TIMEOUT = { timeout: 30_000 };

const HIDDEN_QUOTE_ID = '(hidden: anyone who has it can take the money; see --reveal)';

describe('nutpost trace while the service runs', () => {
  let environment: TestEnvironment;

  beforeAll(async () => {
    environment = await createTestEnvironment({
      env: { ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY },
      overrides: { scanIntervalMs: 5 },
    });
  });

  afterAll(() => environment.close());

  it('traces an unpaid invoice and hides secrets', async () => {
    const { mint, requestInvoice } = await createRecipient();
    const { pr, quoteId, verify } = await requestInvoice();
    // The service starts to watch the mint of a new quote in the background.
    const { exitCode, stdout, stderr } = await eventually(async () => {
      const result = await trace(`lightning:${pr.toUpperCase()}`);
      expect(result.stdout).toContain(' watches this mint.\n');
      return result;
    });
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
    for (const text of [
      'State         UNPAID: not reported as paid\n',
      `Mint          ${mint.url}\n`,
      `Quote id      ${HIDDEN_QUOTE_ID}\n`,
      `Payment hash  ${paymentHashOf(pr)}\n`,
      'The mint is polled until ',
      'The payer can pay the invoice until ',
    ]) {
      expect(stdout).toContain(text);
    }
    expect(stdout).not.toContain(verify.slice(-64));
    for (const args of [[pr], [pr, '--json'], [quoteId], [quoteId, '--json']]) {
      const result = await trace(...args);
      expect(result.exitCode).toBe(0);
      expect(result.stdout).not.toContain(quoteId);
    }
  });

  it('shows the id of an unlocked quote only with --reveal, and that of a locked quote', async () => {
    const { wallet, requestInvoice } = await createRecipient();
    const { pr, quoteId } = await requestInvoice();
    const { stdout } = await trace('--json', '--reveal', paymentHashOf(pr));
    expect(JSON.parse(stdout)).toMatchObject({
      outcome: 'payments',
      payments: [{ quoteId, state: 'UNPAID', paymentStatus: { kind: 'awaiting_payment' } }],
    });
    await setLockQuotes(wallet, true);
    const locked = await requestInvoice();
    const { stdout: lockedTrace } = await trace(paymentHashOf(locked.pr));
    expect(lockedTrace).toContain(`Quote id      ${locked.quoteId}\n`);
    expect(lockedTrace).toContain("Locked        yes: only the recipient's key can collect it\n");
  });

  it('traces a payment from its invoice to the recipient’s sockets', async () => {
    const { mint, wallet, requestInvoice } = await createRecipient();
    const { pr } = await requestInvoice();
    await payAndWait(wallet, mint, pr);
    const { stdout } = await traceUntil('`update` was sent to 1 socket of the recipient.', pr);
    expect(stdout).toContain('State         PAID: it was paid but not collected yet\n');
    expect(stdout).toMatch(/The mint reported PAID .+: the payment was added to the recipient's/);
    expect(stdout).toContain("The recipient's wallet must collect the payment from the mint.\n");
  });

  const ALL_RELAYS_ATTEMPTED = /^(?=.*Accepted after)(?=.*Rejected after)(?=.*The relay failed)/s;

  it('traces the delivery of a zap receipt to each relay and hides the payer’s text', async () => {
    const acceptingRelay = await startFakeRelay();
    const rejectingRelay = await startFakeRelay({
      rejectionMessage: 'blocked: no\u0007t\u202e you',
    });
    const unreachableUrl = 'ws://127.0.0.1:1';
    const { mint, wallet, requestInvoice } = await createRecipient();
    const { text } = createZapRequest({
      recipient: wallet.pubkey,
      amountMsat: 21_000,
      relays: [acceptingRelay.url, rejectingRelay.url, unreachableUrl],
      comment: 'for your eyes',
    });
    const query = `${buildZapQuery(text, 21_000)}&comment=${encodeURIComponent('for your ears')}`;
    const { pr } = await requestInvoice(query);
    expect((await trace(pr)).stdout).toContain(
      '\nZap receipt\n  The service creates it with the payment',
    );

    mint.pay(pr);
    const { stdout } = await traceUntil(ALL_RELAYS_ATTEMPTED, pr);
    const [receiptId] = [...acceptingRelay.events.keys()];
    expect(stdout).toContain(`\nZap receipt ${receiptId}\n  Created `);
    expect(stdout).toMatch(new RegExp(`  ${acceptingRelay.url}\n    Accepted after 1 attempt, `));
    expect(stdout).toContain(`  ${rejectingRelay.url}\n    Rejected after `);
    expect(stdout).toContain(': blocked: not you\n');
    expect(stdout).toContain(`  ${unreachableUrl}\n    Not delivered yet after 0 attempts`);
    expect(stdout).toContain('  Comment       (hidden: only the recipient may read it)\n');
    const json = (await trace('--json', pr)).stdout;
    expect(JSON.parse(json).payments).toMatchObject([
      { isZap: true, hasComment: true, receipt: { id: receiptId } },
    ]);
    expect(stdout + json).not.toContain('for your');
  });

  it('shows a mint report that the service ignored', async () => {
    const { mint, requestInvoice } = await createRecipient();
    const { pr, quoteId } = await requestInvoice();
    // The mint reports another amount for the quote.
    const quotes = mint.quotes as Map<string, TestMintQuote>;
    quotes.set(quoteId, { ...quoteOf(mint, pr), amountSat: 20 });
    mint.pay(pr);
    const { stdout } = await traceUntil('ignored.', pr);
    expect(stdout).toContain('State         UNPAID: not reported as paid\n');
    expect(stdout).toContain('The mint reported PAID for another amount or invoice: ignored.\n');
  });

  it('shows that the mint of an unpaid invoice does not answer', async () => {
    const { mint, requestInvoice } = await createRecipient();
    const { pr } = await requestInvoice();
    await traceUntil(/Last answer {3}\S+Z \(/, pr);
    await mint.close();
    const { stdout } = await traceUntil('polls fail since', pr);
    expect(stdout).toMatch(
      /Last answer {3}\S+Z \(.+ ago\); polls fail since \S+Z \(.+ ago\): connection refused\n/,
    );
    expect(stdout).toContain('State         UNPAID: not reported as paid\n');
  });

  it('lists the payments and open quotes of a recipient', async () => {
    const { mint, wallet, requestInvoice } = await createRecipient();
    await assignUsername(environment.database, wallet.pubkey, 'alice');
    const [paid, unpaid] = [await requestInvoice(), await requestInvoice()];
    await payAndWait(wallet, mint, paid.pr);
    for (const subject of [wallet.npub, wallet.pubkey, 'alice@example.com']) {
      const { exitCode, stdout } = await trace(subject);
      expect(exitCode, subject).toBe(0);
      expect(stdout, subject).toContain(`alice (${wallet.npub})\n\n1 payment; the newest 1, with`);
      expect(stdout, subject).toMatch(new RegExp(`21 sat  PAID +${paymentHashOf(paid.pr)}\n`));
      expect(stdout, subject).toMatch(new RegExp(`21 sat  UNPAID +${paymentHashOf(unpaid.pr)}\n`));
    }
    expect((await trace('alice', '--reveal')).stdout).toContain(unpaid.quoteId);
  });

  it('lists as many payments and quotes as --limit says', async () => {
    const { wallet, requestInvoice } = await createRecipient();
    const [older, newer] = [await requestInvoice(), await requestInvoice()];
    const { stdout } = await trace(wallet.npub, '--limit', '1');
    expect(stdout).toContain('More than 1 unpaid quote, with the time of creation:\n');
    expect(stdout).toContain(paymentHashOf(newer.pr));
    expect(stdout).not.toContain(paymentHashOf(older.pr));
    expect(await trace(wallet.npub, '--limit', '0')).toMatchObject({ exitCode: 2 });
  });

  it('searches for payments and expired invoices by time and amount', async () => {
    const { wallet, mint, requestInvoice } = await createRecipient();
    const paid = await requestInvoice('amount=21000');
    await payAndWait(wallet, mint, paid.pr);
    const expired = await requestInvoice('amount=22000');
    const update = ({ pr }: { pr: string }, values: object) =>
      environment.database.db
        .updateTable('quotes')
        .set(values)
        .where('payment_hash', '=', paymentHashOf(pr))
        .execute();
    await update(paid, { paid_at: Date.parse('2026-08-01T12:00Z') });
    const createdAtMs = Date.parse('2026-08-01T13:00Z');
    await update(expired, { created_at: createdAtMs, state: 'EXPIRED', watch_until: null });
    const hashes = async (...args: string[]) => {
      const { stdout } = await trace(wallet.npub, ...args);
      return [...stdout.matchAll(/ [0-9a-f]{64}$/gm)].map(([hash]) => hash.trim());
    };
    const [paidHash, expiredHash] = [paymentHashOf(paid.pr), paymentHashOf(expired.pr)];
    expect(await hashes()).toEqual([paidHash]);
    expect(await hashes('--since', '2026-08-01')).toEqual([paidHash, expiredHash]);
    expect(await hashes('--since', '2026-08-01T12:30')).toEqual([expiredHash]);
    expect(await hashes('--until', '2026-08-01T12:30Z')).toEqual([paidHash]);
    expect(await hashes('--amount', '22')).toEqual([expiredHash]);
    expect(await hashes('--amount', '23')).toEqual([]);
    expect(await trace(wallet.npub, '--since', 'yesterday')).toMatchObject({ exitCode: 2 });
    expect(await trace(paid.pr, '--amount', '21')).toMatchObject({
      exitCode: 1,
      stderr: '--since, --until and --amount need a recipient: an npub, a name or an address.\n',
    });
  });

  it('exits with 1 if nothing is found', async () => {
    const { npub } = environment.newWallet();
    expect(await trace(npub)).toEqual({
      exitCode: 1,
      stdout: '',
      stderr: 'Not found: no recipient has this key.\n',
    });
    expect(await trace(npub.slice(0, -1))).toMatchObject({ exitCode: 1 });
    const { exitCode, stdout, stderr } = await trace('--json', '--', '-unheard-of');
    expect({ exitCode, stderr }).toEqual({ exitCode: 1, stderr: '' });
    expect(JSON.parse(stdout)).toEqual({ outcome: 'not_found', triedKinds: ['quote_id'] });
  });

  async function createRecipient() {
    const wallet = environment.newWallet();
    const mint = await assignNewTestMint(wallet);
    const requestInvoice = async (
      query = 'amount=21000',
    ): Promise<{ pr: string; quoteId: string; verify: string }> => {
      const path = `/.well-known/lnurlp/${wallet.npub}?${query}`;
      const { body } = await requestJson(environment.origin, path);
      return { ...body, quoteId: quoteOf(mint, body.pr).id };
    };
    return { wallet, mint, requestInvoice };
  }

  async function payAndWait(wallet: RecipientClient, mint: TestMint, invoice: string) {
    const socket = await wallet.openSocket();
    mint.pay(invoice);
    await socket.nextMessage();
    await socket.close();
  }

  function trace(...args: string[]): Promise<CommandResult> {
    return runOperatorCommand(environment.database, ['trace', ...args]);
  }

  function traceUntil(expectedText: string | RegExp, subject: string): Promise<CommandResult> {
    return vi.waitFor(async () => {
      const result = await trace(subject);
      expect(result.stdout).toMatch(expectedText);
      return result;
    }, RECORD_TIMEOUT);
  }
});

function paymentHashOf(invoice: string): string {
  return decodeInvoice(invoice)?.paymentHash ?? expect.fail('not a BOLT 11 invoice');
}

function quoteOf(mint: TestMint, invoice: string): TestMintQuote {
  const quote = [...mint.quotes.values()].find((each) => each.request === invoice);
  return quote ?? expect.fail('the mint did not create this invoice');
}
