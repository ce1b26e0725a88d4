import { createHash } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import type { MintStyle } from '../../demo/test-mint/switches.ts';
import { assignUsername } from '../helpers/recipients/assign-username.ts';
import { readInvoiceField } from '../helpers/recipients/invoice-field.ts';
import { createSdkClient } from '../helpers/recipients/npubcash-sdk.ts';
import {
  type ApiResponse,
  type RecipientClient,
  requestJson,
} from '../helpers/recipients/recipient-client.ts';
import { requestZapInvoice, TEST_ZAP_SECRET_KEY } from '../helpers/relays/zap-requests.ts';
import {
  assignNewTestMint,
  receivePayment,
  useAdditionalService,
  useTestEnvironment,
} from '../helpers/service/test-environment.ts';

/** Payer comments (LUD-12) and invoice descriptions or description hashes (BOLT 11). */

const CREATE_QUOTE = 'POST /v1/mint/quote/bolt11';

const environment = useTestEnvironment({
  env: { ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY, LNURL_TEXT: 'Für {address} 🥜' },
});
let alice: RecipientClient;
let host: string;

beforeAll(async () => {
  host = new URL(environment.origin).host;
  alice = environment.newWallet();
  await assignUsername(environment.database, alice.pubkey, 'alice');
});

describe('a comment', () => {
  it.each([
    ['plain words', 'Thank you!'],
    ['special characters', 'Grüße 🥜 "quoted" \\ %41 + & = # <b>\n\tline'],
    ['surrounding spaces', '  for you '],
  ])('appears unchanged in the recipient’s list: %s', async (_case, comment) => {
    const wallet = environment.newWallet();
    // The service stores the first of several comments and ignores the others.
    await receivePayment(
      environment,
      wallet,
      `amount=21000&${new URLSearchParams({ comment })}&comment=second`,
    );
    expect(await wallet.listPaidQuotes()).toMatchObject([{ comment, amount: 21 }]);
    expect(await createSdkClient(wallet).getAllQuotes()).toMatchObject([
      { amount: 21, state: 'PAID' },
    ]);
  });

  it.each(['comment', 'comment=%20+%0A'])('is ignored if it is empty: “%s”', async (query) => {
    const wallet = environment.newWallet();
    await receivePayment(environment, wallet, `amount=21000&${query}`);
    const [quote] = await wallet.listPaidQuotes();
    expect(quote).not.toHaveProperty('comment');
    expect(quote).not.toHaveProperty('zapRequest');
  });

  it('may have as many characters as discovery announces, regardless of their bytes', async () => {
    const wallet = environment.newWallet();
    const { commentAllowed } = (await fetchLnurlPay(wallet, '')).body;
    expect(commentAllowed).toBe(255);
    const longest = '🥜'.repeat(commentAllowed);
    await fetchLnurlPay(wallet, `amount=21000&comment=${encodeURIComponent(longest)}`);
    expect(await listStoredComments(wallet)).toEqual([longest]);
  });

  it.each([
    ['one character too many', '🥜'.repeat(256), 'The comment must have at most 255 characters.'],
    ['a NUL character', 'a\0b', 'The comment must not have NUL characters.'],
  ])('is rejected with %s before the mint is called', async (_case, comment, reason) => {
    const wallet = environment.newWallet();
    const createdBefore = environment.mint.requestCounts[CREATE_QUOTE];
    const query = `amount=21000&comment=${encodeURIComponent(comment)}`;
    const { status, body } = await fetchLnurlPay(wallet, query);
    expect(status).toBe(200);
    expect(body).toEqual({ status: 'ERROR', reason });
    expect(environment.mint.requestCounts[CREATE_QUOTE]).toBe(createdBefore);
    expect(await listStoredComments(wallet)).toEqual([]);
  });
});

describe('MAX_COMMENT_LENGTH', () => {
  it('limits the length of comments', async () => {
    const { url } = await useAdditionalService(environment, { MAX_COMMENT_LENGTH: '3' });
    const wallet = environment.newWallet();
    expect((await fetchLnurlPay(wallet, '', url)).body.commentAllowed).toBe(3);
    expect((await fetchLnurlPay(wallet, 'amount=21000&comment=1234', url)).body.reason).toMatch(
      /at most 3 /,
    );
    await fetchLnurlPay(wallet, 'amount=21000&comment=123', url);
    expect(await listStoredComments(wallet)).toEqual(['123']);
  });

  it('disables comments if it is 0, while payments with a comment still succeed', async () => {
    const { url } = await useAdditionalService(environment, { MAX_COMMENT_LENGTH: '0' });
    const wallet = environment.newWallet();
    expect((await fetchLnurlPay(wallet, '', url)).body).not.toHaveProperty('commentAllowed');
    expect((await fetchLnurlPay(wallet, 'amount=21000&comment=a%00b', url)).body.pr).toEqual(
      expect.any(String),
    );
    expect(await listStoredComments(wallet)).toEqual([null]);
  });
});

const MINT_STYLES: MintStyle[] = ['nutshell', 'cdk'];

describe.each(MINT_STYLES)('an invoice of a %s mint with description support', (style) => {
  it('contains the comment, or LNURL_TEXT with the address that the payer used, even for a zap', async () => {
    await assignNewTestMint(alice, { style });
    for (const user of ['alice', 'ALICE', alice.npub]) {
      const description = `Für ${user.toLowerCase()}@${host} 🥜`;
      const pr = await requestInvoice(user);
      expect(readInvoiceField(pr, 'description')).toBe(description);
      expect(readInvoiceField(pr, 'description_hash')).toBeUndefined();
      expect(JSON.parse(await fetchMetadata(user))[0]).toEqual(['text/plain', description]);
    }
    const { pr: zapInvoice } = await requestAlicesZapInvoice();
    expect(readInvoiceField(zapInvoice, 'description')).toBe(`Für alice@${host} 🥜`);
    const withComment = await requestInvoice('alice', 'For tea');
    expect(readInvoiceField(withComment, 'description')).toBe('For tea');
  });
});

describe.each(MINT_STYLES)('an invoice of a %s mint with description hash support', (style) => {
  it('contains the hash of the metadata or, for a zap, of the zap request', async () => {
    await assignNewTestMint(alice, { style, supportsDescriptionHash: true });
    const { pr: zapInvoice, text: zapRequest } = await requestAlicesZapInvoice();
    for (const [pr, hashedText] of [
      [await requestInvoice('alice', 'For tea'), await fetchMetadata('alice')],
      [zapInvoice, zapRequest],
    ] as const) {
      expect(readInvoiceField(pr, 'description_hash')).toBe(sha256Hex(hashedText));
      expect(readInvoiceField(pr, 'description')).toBeUndefined();
    }
  });
});

function fetchLnurlPay(
  wallet: RecipientClient,
  query: string,
  origin = environment.origin,
): Promise<ApiResponse> {
  return requestJson(origin, `/.well-known/lnurlp/${wallet.npub}?${query}`);
}

async function listStoredComments(wallet: RecipientClient): Promise<(string | null)[]> {
  const rows = await environment.database.db
    .selectFrom('quotes')
    .select('comment')
    .where('pubkey', '=', wallet.pubkey)
    .execute();
  return rows.map(({ comment }) => comment);
}

async function requestInvoice(user: string, comment = ''): Promise<string> {
  const path = `/.well-known/lnurlp/${user}?${new URLSearchParams({ amount: '21000', comment })}`;
  return (await requestJson(environment.origin, path)).body.pr;
}

function requestAlicesZapInvoice() {
  return requestZapInvoice(environment.origin, { npub: 'alice', pubkey: alice.pubkey });
}

async function fetchMetadata(user: string): Promise<string> {
  return (await requestJson(environment.origin, `/.well-known/lnurlp/${user}`)).body.metadata;
}

function sha256Hex(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
