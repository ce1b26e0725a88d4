import { createHash } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import type { MintStyle } from '../../demo/test-mint/switches.ts';
import { readInvoiceField } from '../helpers/invoice-field.ts';
import { assignUsername } from '../helpers/names.ts';
import {
  assignTestMint,
  receivePayment,
  useAdditionalService,
  useTestEnvironment,
} from '../helpers/test-environment.ts';
import { type ApiResponse, requestJson, type TestWallet } from '../helpers/test-wallet.ts';
import { createSdkClient } from '../helpers/wallet-sdk.ts';
import { buildZapQuery, createZapRequest, TEST_ZAP_SECRET_KEY } from '../helpers/zap-requests.ts';

/** Payer comments (LUD-12) and invoice descriptions or description hashes (BOLT 11). */

const CREATE_QUOTE = 'POST /v1/mint/quote/bolt11';

const AMOUNT_MSAT = 21_000;

const world = useTestEnvironment({
  env: { ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY, LNURL_TEXT: 'Für {address} 🥜' },
});
let alice: TestWallet;
let host: string;

beforeAll(async () => {
  host = new URL(world.origin).host;
  alice = world.newWallet();
  await assignUsername(world.database, alice.pubkey, 'alice');
});

describe('a comment', () => {
  it.each([
    ['plain words', 'Thank you!'],
    ['special characters', 'Grüße 🥜 "quoted" \\ %41 + & = # <b>\n\tline'],
    ['surrounding spaces', '  for you '],
  ])('appears unchanged in the recipient’s list: %s', async (_case, comment) => {
    const wallet = world.newWallet();
    // The first of several comments counts; duplicates are not an error.
    await receivePayment(
      world,
      wallet,
      `amount=21000&${new URLSearchParams({ comment })}&comment=two`,
    );
    expect(await wallet.listQuotes()).toMatchObject([{ comment, amount: 21 }]);
    expect(await createSdkClient(wallet).getAllQuotes()).toMatchObject([
      { amount: 21, state: 'PAID' },
    ]);
  });

  it.each(['', 'comment', 'comment=', 'comment=%20+%0A'])(
    'is ignored if it is empty: “%s”',
    async (query) => {
      const wallet = world.newWallet();
      await receivePayment(world, wallet, `amount=21000&${query}`);
      const [quote] = await wallet.listQuotes();
      expect(quote).not.toHaveProperty('comment');
      expect(quote).not.toHaveProperty('zapRequest');
    },
  );

  it('may have the announced number of characters, regardless of its bytes', async () => {
    const wallet = world.newWallet();
    const { commentAllowed } = (await requestPay(wallet, '')).body;
    expect(commentAllowed).toBe(255);
    const longest = '🥜'.repeat(commentAllowed);
    const { body } = await requestPay(
      wallet,
      `amount=21000&comment=${encodeURIComponent(longest)}`,
    );
    expect(await listStoredComments(wallet)).toEqual([longest]);
    expect(body.pr).toEqual(expect.any(String));
  });

  it.each<[string, string, RegExp]>([
    [
      'one character too many',
      '🥜'.repeat(256),
      /^The comment must have at most 255 characters\.$/,
    ],
    ['50,000 characters', 'x'.repeat(50_000), /^The comment must have at most 255 characters\.$/],
    ['a NUL character', 'a\0b', /^The comment must not have NUL characters\.$/],
  ])('is rejected with %s before the mint is called', async (_case, comment, reason) => {
    const wallet = world.newWallet();
    const before = world.mint.requestCounts[CREATE_QUOTE];
    const { status, body } = await requestPay(
      wallet,
      `amount=21000&comment=${encodeURIComponent(comment)}`,
    );
    expect({ status, body }).toEqual({
      status: 200,
      body: { status: 'ERROR', reason: expect.stringMatching(reason) },
    });
    expect(world.mint.requestCounts[CREATE_QUOTE]).toBe(before);
    expect(await listStoredComments(wallet)).toEqual([]);
  });
});

describe('MAX_COMMENT_LENGTH', () => {
  it('limits the length of comments', async () => {
    const requestPayAtService = await createRequestPay({ MAX_COMMENT_LENGTH: '3' });
    const wallet = world.newWallet();
    expect((await requestPayAtService(wallet, '')).body.commentAllowed).toBe(3);
    expect((await requestPayAtService(wallet, 'amount=21000&comment=1234')).body.reason).toMatch(
      /at most 3 /,
    );
    await requestPayAtService(wallet, 'amount=21000&comment=123');
    expect(await listStoredComments(wallet)).toEqual(['123']);
  });

  it('disables comments if it is 0; payments with a comment still succeed', async () => {
    const requestPayAtService = await createRequestPay({ MAX_COMMENT_LENGTH: '0' });
    const wallet = world.newWallet();
    expect((await requestPayAtService(wallet, '')).body).not.toHaveProperty('commentAllowed');
    expect((await requestPayAtService(wallet, 'amount=21000&comment=a%00b')).body.pr).toEqual(
      expect.any(String),
    );
    expect(await listStoredComments(wallet)).toEqual([null]);
  });
});

const STYLES: MintStyle[] = ['nutshell', 'cdk'];

describe.each(STYLES)('an invoice of a %s mint with description support', (style) => {
  it('describes the recipient with LNURL_TEXT as the payer addressed them, without the zap request', async () => {
    await assignTestMint(alice, { style });
    for (const user of ['alice', 'ALICE', alice.npub]) {
      const description = `Für ${user.toLowerCase()}@${host} 🥜`;
      const pr = await requestCommentedInvoice(user);
      expect(readInvoiceField(pr, 'description')).toBe(description);
      expect(readInvoiceField(pr, 'description_hash')).toBeUndefined();
      expect(JSON.parse(await fetchMetadata(user))[0]).toEqual(['text/plain', description]);
    }
    expect(readInvoiceField((await requestZapInvoice()).pr, 'description')).toBe(
      `Für alice@${host} 🥜`,
    );
  });

  it.each([
    ['Für den Tee,\nund αγάπη 🫖', 'Für den Tee, und αγάπη 🫖'],
    ['🥜'.repeat(255), '🥜'.repeat(159)],
  ])('contains the truncated comment on one line: %j', async (comment, description) => {
    await assignTestMint(alice, { style });
    expect(
      readInvoiceField(await requestCommentedInvoice('alice', { comment }), 'description'),
    ).toBe(description);
  });
});

describe.each(STYLES)('an invoice of a %s mint with description hash support', (style) => {
  it('contains the hash of the metadata or of the zap request', async () => {
    await assignTestMint(alice, { style, supportsDescriptionHash: true });
    const { pr: zapInvoice, zapRequest } = await requestZapInvoice();
    for (const [pr, hashed] of [
      [
        await requestCommentedInvoice('alice', { comment: 'For tea' }),
        await fetchMetadata('alice'),
      ],
      [zapInvoice, zapRequest],
    ] as const) {
      expect(readInvoiceField(pr, 'description_hash')).toBe(sha256Hex(hashed));
      expect(readInvoiceField(pr, 'description')).toBeUndefined();
    }
  });
});

function pathOf(wallet: TestWallet, query: string): string {
  return `/.well-known/lnurlp/${wallet.npub}?${query}`;
}

function requestPay(wallet: TestWallet, query: string): Promise<ApiResponse> {
  return requestJson(world.origin, pathOf(wallet, query));
}

/** Returns a `requestPay` for a second service with this environment. */
async function createRequestPay(env: Record<string, string>): Promise<typeof requestPay> {
  const service = await useAdditionalService(world, env);
  return (wallet, query) => requestJson(service.url, pathOf(wallet, query));
}

async function listStoredComments(wallet: TestWallet): Promise<(string | null)[]> {
  const rows = await world.database.db
    .selectFrom('quotes')
    .select('comment')
    .where('pubkey', '=', wallet.pubkey)
    .execute();
  return rows.map(({ comment }) => comment);
}

async function requestCommentedInvoice(
  user: string,
  params: { comment?: string } = {},
): Promise<string> {
  const query = new URLSearchParams({ amount: String(AMOUNT_MSAT), ...params });
  return await requestInvoice(user, query.toString());
}

async function requestZapInvoice(): Promise<{ pr: string; zapRequest: string }> {
  const { text } = createZapRequest({ recipient: alice.pubkey, amountMsat: AMOUNT_MSAT });
  return { pr: await requestInvoice('alice', buildZapQuery(text, AMOUNT_MSAT)), zapRequest: text };
}

async function requestInvoice(user: string, query: string): Promise<string> {
  const { body } = await requestJson(world.origin, `/.well-known/lnurlp/${user}?${query}`);
  if (body.pr === undefined) {
    throw new Error(`no invoice: ${JSON.stringify(body)}`);
  }
  return body.pr;
}

async function fetchMetadata(user: string): Promise<string> {
  return (await requestJson(world.origin, `/.well-known/lnurlp/${user}`)).body.metadata;
}

function sha256Hex(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
