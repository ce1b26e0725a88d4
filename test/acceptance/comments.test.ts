import { createHash } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import type { MintStyle } from '../../demo/test-mint/switches.ts';
import { invoiceField } from '../helpers/invoice-field.ts';
import { giveName } from '../helpers/names.ts';
import { type ApiAnswer, request, type TestWallet } from '../helpers/wallet.ts';
import { sdkOf } from '../helpers/wallet-sdk.ts';
import { giveOwnMint, receive, serveBeside, useWorld } from '../helpers/world.ts';
import { TEST_ZAP_SECRET_KEY, zapQuery, zapRequest } from '../helpers/zap-requests.ts';

/** Comments of payers (LUD-12), and what payers read in an invoice (BOLT 11): a description, or the hash of one. */

const CREATE_QUOTE = 'POST /v1/mint/quote/bolt11';

const AMOUNT_MSAT = 21_000;

const world = useWorld({
  env: { ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY, LNURL_TEXT: 'Für {address} 🥜' },
});
let alice: TestWallet;
let host: string;

beforeAll(async () => {
  host = new URL(world.base).host;
  alice = world.newWallet();
  await giveName(world.database, alice.pubkey, 'alice');
});

describe('a comment', () => {
  it.each([
    ['plain words', 'Thank you!'],
    ['any letters', 'Grüße 🥜 "quoted" \\ %41 + & = # <b>\n\tline'],
    ['blanks around it', '  for you '],
  ])('is in the recipient’s list as it was written: %s', async (_case, comment) => {
    const wallet = world.newWallet();
    // The first of several counts: no payment fails for that.
    await receive(world, wallet, `amount=21000&${new URLSearchParams({ comment })}&comment=two`);
    expect(await wallet.listQuotes()).toMatchObject([{ comment, amount: 21 }]);
    expect(await sdkOf(wallet).getAllQuotes()).toMatchObject([{ amount: 21, state: 'PAID' }]);
  });

  it.each(['', 'comment', 'comment=', 'comment=%20+%0A'])(
    'is none where it is “%s”',
    async (query) => {
      const wallet = world.newWallet();
      await receive(world, wallet, `amount=21000&${query}`);
      const [quote] = await wallet.listQuotes();
      expect(quote).not.toHaveProperty('comment');
      expect(quote).not.toHaveProperty('zapRequest');
    },
  );

  it('has as many characters as discovery says, however many bytes they have', async () => {
    const wallet = world.newWallet();
    const { commentAllowed } = (await ask(wallet, '')).body;
    expect(commentAllowed).toBe(255);
    const longest = '🥜'.repeat(commentAllowed);
    const { body } = await ask(wallet, `amount=21000&comment=${encodeURIComponent(longest)}`);
    expect(await keptComments(wallet)).toEqual([longest]);
    expect(body.pr).toEqual(expect.any(String));
  });

  it.each<[string, string, RegExp]>([
    ['one character more', '🥜'.repeat(256), /^The comment must have at most 255 characters\.$/],
    ['a whole book', 'x'.repeat(50_000), /^The comment must have at most 255 characters\.$/],
    ['what no database keeps', 'a\0b', /^The comment must not have NUL characters\.$/],
  ])('is refused with %s, and no mint is asked', async (_case, comment, reason) => {
    const wallet = world.newWallet();
    const before = world.mint.requestCounts[CREATE_QUOTE];
    const { status, body } = await ask(
      wallet,
      `amount=21000&comment=${encodeURIComponent(comment)}`,
    );
    expect({ status, body }).toEqual({
      status: 200,
      body: { status: 'ERROR', reason: expect.stringMatching(reason) },
    });
    expect(world.mint.requestCounts[CREATE_QUOTE]).toBe(before);
    expect(await keptComments(wallet)).toEqual([]);
  });
});

describe('an operator', () => {
  it('decides how long comments may be', async () => {
    const asked = await beside({ MAX_COMMENT_LENGTH: '3' });
    const wallet = world.newWallet();
    expect((await asked(wallet, '')).body.commentAllowed).toBe(3);
    expect((await asked(wallet, 'amount=21000&comment=1234')).body.reason).toMatch(/at most 3 /);
    await asked(wallet, 'amount=21000&comment=123');
    expect(await keptComments(wallet)).toEqual(['123']);
  });

  it('who takes none announces nothing, and payments with one are as good as without', async () => {
    const asked = await beside({ MAX_COMMENT_LENGTH: '0' });
    const wallet = world.newWallet();
    expect((await asked(wallet, '')).body).not.toHaveProperty('commentAllowed');
    expect((await asked(wallet, 'amount=21000&comment=a%00b')).body.pr).toEqual(expect.any(String));
    expect(await keptComments(wallet)).toEqual([null]);
  });
});

const STYLES: MintStyle[] = ['nutshell', 'cdk'];

describe.each(STYLES)('at a mint like %s that takes descriptions, an invoice', (style) => {
  it('names the recipient as the payer does, in the operator’s words, and not the zap request', async () => {
    await giveOwnMint(alice, { style });
    for (const user of ['alice', 'ALICE', alice.npub]) {
      const words = `Für ${user.toLowerCase()}@${host} 🥜`;
      const pr = await invoice(user);
      expect(invoiceField(pr, 'description')).toBe(words);
      expect(invoiceField(pr, 'description_hash')).toBeUndefined();
      expect(JSON.parse(await metadata(user))[0]).toEqual(['text/plain', words]);
    }
    expect(invoiceField((await zap()).pr, 'description')).toBe(`Für alice@${host} 🥜`);
  });

  it.each([
    ['Für den Tee,\nund αγάπη 🫖', 'Für den Tee, und αγάπη 🫖'],
    ['🥜'.repeat(255), '🥜'.repeat(159)],
  ])('says what the payer wrote, on one line, as far as it fits: %j', async (comment, words) => {
    await giveOwnMint(alice, { style });
    expect(invoiceField(await invoice('alice', { comment }), 'description')).toBe(words);
  });
});

describe.each(STYLES)('at a mint like %s that takes hashes, an invoice', (style) => {
  it('carries the hash of the metadata, whatever the payer wrote, or of the zap request', async () => {
    await giveOwnMint(alice, { style, descriptionHash: true });
    const { pr: zapped, signed } = await zap();
    for (const [pr, hashed] of [
      [await invoice('alice', { comment: 'For tea' }), await metadata('alice')],
      [zapped, signed],
    ] as const) {
      expect(invoiceField(pr, 'description_hash')).toBe(sha256Hex(hashed));
      expect(invoiceField(pr, 'description')).toBeUndefined();
    }
  });
});

function pathOf(wallet: TestWallet, query: string): string {
  return `/.well-known/lnurlp/${wallet.npub}?${query}`;
}

function ask(wallet: TestWallet, query: string): Promise<ApiAnswer> {
  return request(world.base, pathOf(wallet, query));
}

/** How to ask another service, for as long as the test runs. */
async function beside(env: Record<string, string>): Promise<typeof ask> {
  const service = await serveBeside(world, env);
  return (wallet, query) => request(service.url, pathOf(wallet, query));
}

async function keptComments(wallet: TestWallet): Promise<(string | null)[]> {
  const kept = await world.database.db
    .selectFrom('quotes')
    .select('comment')
    .where('pubkey', '=', wallet.pubkey)
    .execute();
  return kept.map(({ comment }) => comment);
}

async function invoice(user: string, words: { comment?: string } = {}): Promise<string> {
  const query = new URLSearchParams({ amount: String(AMOUNT_MSAT), ...words });
  return await invoiceFor(user, query.toString());
}

async function zap(): Promise<{ pr: string; signed: string }> {
  const { text } = zapRequest({ recipient: alice.pubkey, amountMsat: AMOUNT_MSAT });
  return { pr: await invoiceFor('alice', zapQuery(text, AMOUNT_MSAT)), signed: text };
}

async function invoiceFor(user: string, query: string): Promise<string> {
  const { body } = await request(world.base, `/.well-known/lnurlp/${user}?${query}`);
  if (body.pr === undefined) {
    throw new Error(`no invoice: ${JSON.stringify(body)}`);
  }
  return body.pr;
}

async function metadata(user: string): Promise<string> {
  return (await request(world.base, `/.well-known/lnurlp/${user}`)).body.metadata;
}

function sha256Hex(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
