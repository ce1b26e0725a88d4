import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import type { TestMintQuote } from '../../demo/test-mint/quotes.ts';
import type { TestMint } from '../../demo/test-mint.ts';
import { openDatabase } from '../../src/database/database.ts';
import type { CommandResult } from '../../src/operator/command.ts';
import { readInvoice } from '../../src/quotes/bolt11.ts';
import { hasServer } from '../helpers/database.ts';
import { startMint } from '../helpers/mints.ts';
import { giveName } from '../helpers/names.ts';
import { NutpostProcess, runNutpost } from '../helpers/nutpost-process.ts';
import { operate } from '../helpers/operator.ts';
import { createPlace, type Place } from '../helpers/place.ts';
import { startRelay } from '../helpers/relays.ts';
import { request, TestWallet } from '../helpers/wallet.ts';
import { giveOwnMint, openWorld, setLock, type World } from '../helpers/world.ts';
import { TEST_ZAP_SECRET_KEY, zapQuery, zapRequest } from '../helpers/zap-requests.ts';

/** `nutpost trace`, beside a running service and without one. */

/** Updates are recorded after they were sent. */
const WRITTEN_LATER = { timeout: 30_000 };

const HIDDEN = '(hidden: anyone who has it can take the money; see --reveal)';

describe('beside a running service', () => {
  let world: World;

  beforeAll(async () => {
    world = await openWorld({
      env: { ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY },
      surroundings: { scanIntervalMs: 5 },
    });
  });

  afterAll(() => world.close());

  it('traces an unpaid invoice, and hides secrets', async () => {
    const { mint, askInvoice } = await newRecipient();
    const { pr, quoteId, verify } = await askInvoice();
    const { exitCode, stdout, stderr } = await trace(`lightning:${pr.toUpperCase()}`);
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
    for (const text of [
      'State         UNPAID: the mint has seen no payment yet\n',
      `Mint          ${mint.url}\n`,
      `Quote id      ${HIDDEN}\n`,
      `Payment hash  ${hashOf(pr)}\n`,
      'The mint is polled until ',
      ' watches this mint.\n',
      'The payer can pay the invoice until ',
    ]) {
      expect(stdout).toContain(text);
    }
    expect(stdout).not.toContain(verify.slice(-64));
    for (const args of [[pr], [pr, '--json'], [quoteId], [quoteId, '--json']]) {
      const shown = await trace(...args);
      expect(shown.exitCode).toBe(0);
      expect(shown.stdout).not.toContain(quoteId);
    }
  });

  it('shows the id of an unlocked quote with --reveal', async () => {
    const { askInvoice } = await newRecipient();
    const { pr, quoteId } = await askInvoice();
    expect((await trace('--reveal', pr)).stdout).toContain(`Quote id      ${quoteId}\n`);
    const { stdout } = await trace('--json', '--reveal', hashOf(pr));
    expect(JSON.parse(stdout)).toMatchObject({
      outcome: 'payments',
      payments: [{ quoteId, state: 'UNPAID', outlook: { kind: 'awaiting_payment' } }],
    });
  });

  it('shows the id of a locked quote, which only its recipient can collect', async () => {
    const { wallet, askInvoice } = await newRecipient();
    await setLock(wallet, true);
    const { pr, quoteId } = await askInvoice();
    const { stdout } = await trace(hashOf(pr));
    expect(stdout).toContain(`Quote id      ${quoteId}\n`);
    expect(stdout).toContain('Locked        yes: only the key of the recipient can collect it\n');
  });

  it('traces a payment from its invoice to the sockets of the recipient', async () => {
    const { mint, wallet, askInvoice } = await newRecipient();
    const socket = await wallet.openSocket();
    const { pr } = await askInvoice();
    mint.pay(pr);
    await socket.next();
    // The event is stored up to a second later.
    const { stdout } = await traceUntil('`update` was sent to 1 socket of the recipient.', pr);
    expect(stdout).toContain('State         PAID: it was paid, and is not collected yet\n');
    expect(stdout).toMatch(/The mint reported PAID .+: the payment entered the list of the/);
    expect(stdout).toContain('The wallet of the recipient has to collect it from the mint.\n');
    await socket.close();
  });

  const ALL_THREE_TRIED = /^(?=.*Accepted after)(?=.*Rejected after)(?=.*The relay failed)/s;

  it('traces a zap to each relay, and hides what the payer wrote', async () => {
    const accepting = await startRelay();
    const refusing = await startRelay({ rejectWith: 'blocked: no\u0007t\u202e you' });
    const nobody = 'ws://127.0.0.1:1';
    const { mint, wallet, askInvoice } = await newRecipient();
    const { text } = zapRequest({
      recipient: wallet.pubkey,
      amountMsat: 21_000,
      relays: [accepting.url, refusing.url, nobody],
      comment: 'for your eyes',
    });
    const query = `${zapQuery(text, 21_000)}&comment=${encodeURIComponent('for your ears')}`;
    const { pr } = await askInvoice(query);
    expect((await trace(pr)).stdout).toContain('\nZap receipt\n  It is created with the payment');

    mint.pay(pr);
    const { stdout } = await traceUntil(ALL_THREE_TRIED, pr);
    const [receiptId] = [...accepting.events.keys()];
    expect(stdout).toContain(`\nZap receipt ${receiptId}\n  Created `);
    expect(stdout).toMatch(new RegExp(`  ${accepting.url}\n    Accepted after 1 attempt, `));
    expect(stdout).toMatch(
      new RegExp(`  ${refusing.url}\n    Rejected after .+: blocked: not you\n`),
    );
    expect(stdout).toMatch(
      new RegExp(`  ${nobody}\n    Not delivered yet after 0 attempts.*\n    The relay failed.*: `),
    );
    expect(stdout).toContain('  Comment       (hidden: it is for the recipient)\n');
    const json = JSON.parse((await trace('--json', pr)).stdout);
    expect(json.payments).toMatchObject([{ isZap: true, hasComment: true }]);
    expect(json.payments[0].receipt).toMatchObject({
      id: receiptId,
      relays: expect.arrayContaining([
        expect.objectContaining({ relay: accepting.url, state: 'accepted', tries: 1 }),
        expect.objectContaining({ relay: nobody, state: 'open', tries: 0 }),
      ]),
    });
    expect(stdout + JSON.stringify(json)).not.toContain('for your');
  });

  it('shows what the mint reported and the service ignored', async () => {
    const { mint, askInvoice } = await newRecipient();
    const { pr, quoteId } = await askInvoice();
    // The mint takes the quote for one of another amount.
    const quotes = mint.quotes as Map<string, TestMintQuote>;
    quotes.set(quoteId, { ...quoteOf(mint, pr), amountSat: 20 });
    mint.pay(pr);
    const { stdout } = await traceUntil('ignored.', pr);
    expect(stdout).toContain('State         UNPAID: the mint has seen no payment yet\n');
    expect(stdout).toContain('The mint reported PAID for another amount or invoice: ignored.\n');
  });

  it('finds a recipient by npub, by key, by name and by address', async () => {
    const { mint, wallet, askInvoice } = await newRecipient();
    await giveName(world.database, wallet.pubkey, 'alice');
    const [paid, open] = [await askInvoice(), await askInvoice()];
    const socket = await wallet.openSocket();
    mint.pay(paid.pr);
    await socket.next();
    await socket.close();
    for (const text of [
      wallet.npub.toUpperCase(),
      wallet.pubkey,
      'Alice',
      'alice@example.com',
      `${wallet.npub}@example.com`,
    ]) {
      const { exitCode, stdout } = await trace(text);
      expect(exitCode, text).toBe(0);
      expect(stdout, text).toContain(`alice (${wallet.npub})\n\n1 payment; the newest 1, with`);
      expect(stdout, text).toMatch(new RegExp(`21 sat  PAID +${hashOf(paid.pr)}\n`));
      expect(stdout, text).toMatch(new RegExp(`21 sat  UNPAID +${hashOf(open.pr)}\n`));
    }
    expect((await trace('alice', '--reveal')).stdout).toContain(open.quoteId);
  });

  it('exits with 1 if nothing is found', async () => {
    const { npub } = world.newWallet();
    expect(await trace(npub)).toEqual({
      exitCode: 1,
      stdout: '',
      stderr: 'Not found: no recipient has this key.\n',
    });
    expect(await trace(npub.slice(0, -1))).toMatchObject({
      exitCode: 1,
      stderr: 'This is not a valid npub: it may be cut off or mistyped.\n',
    });
    const { exitCode, stdout, stderr } = await trace('--json', '--', '-unheard-of');
    expect({ exitCode, stderr }).toEqual({ exitCode: 1, stderr: '' });
    expect(JSON.parse(stdout)).toEqual({ outcome: 'not_found', soughtAs: ['quote_id'] });
  });

  /** A recipient with a mint of their own. */
  async function newRecipient() {
    const wallet = world.newWallet();
    const mint = await giveOwnMint(wallet);
    const askInvoice = async (
      query = 'amount=21000',
    ): Promise<{ pr: string; quoteId: string; verify: string }> => {
      const path = `/.well-known/lnurlp/${wallet.npub}?${query}`;
      const { body } = await request(world.base, path);
      return { ...body, quoteId: quoteOf(mint, body.pr).id };
    };
    return { wallet, mint, askInvoice };
  }

  function trace(...args: string[]): Promise<CommandResult> {
    return operate(world.database, ['trace', ...args]);
  }

  async function traceUntil(text: string | RegExp, subject: string): Promise<CommandResult> {
    return vi.waitFor(async () => {
      const ending = await trace(subject);
      expect(ending.stdout).toMatch(text);
      return ending;
    }, WRITTEN_LATER);
  }
});

// On a server, a killed process has its lease for some seconds more.
describe.skipIf(hasServer)('on SQLite', () => {
  it('traces a payment whether the service runs, was killed or has stopped', async () => {
    const mint = await startMint();
    const { env } = await createPlaceForTest();
    const start = () => new NutpostProcess('serve', { ...env, DEFAULT_MINT_URL: mint.url });
    const killed = start();
    const wallet = new TestWallet(await killed.listening());
    const { body } = await request(wallet.base, `/.well-known/lnurlp/${wallet.npub}?amount=21000`);
    const trace = () => runNutpost(['trace', body.pr], env);
    const expected = { code: 0, stderr: '', stdout: expect.stringContaining(hashOf(body.pr)) };

    expect(await trace()).toEqual(expected);
    await killed.kill();
    expect(await trace()).toEqual(expected);
    const next = start();
    await next.listening();
    await next.stop();
    const last = await trace();
    expect(last).toEqual(expected);
    expect(last.stdout).toContain('No process watches this mint at the moment: is the service');
  });
});

it('does not change a database that is older than the command', async () => {
  const { env, location } = await createPlaceForTest();
  const { db, close } = await openDatabase(location, () => undefined);
  const removed = await sql`
    delete from kysely_migration
    where name = (select max(name) from kysely_migration) returning name
  `.execute(db);
  await close();
  expect(removed.rows).toHaveLength(1);
  expect(await runNutpost(['trace', 'alice'], env)).toEqual({
    code: 1,
    stdout: '',
    stderr:
      'The database is older than this version of nutpost: `nutpost migrate` brings it up to date,' +
      ' and the service has to be of this version then, too.\n',
  });
});

async function createPlaceForTest(): Promise<Place> {
  const place = await createPlace();
  onTestFinished(() => place.remove());
  return place;
}

function hashOf(invoice: string): string {
  const paymentHash = readInvoice(invoice)?.paymentHash;
  if (paymentHash === undefined) {
    throw new Error('this is no invoice');
  }
  return paymentHash;
}

function quoteOf(mint: TestMint, invoice: string): TestMintQuote {
  const quote = [...mint.quotes.values()].find((each) => each.request === invoice);
  if (quote === undefined) {
    throw new Error('the mint has no such invoice');
  }
  return quote;
}
