import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { MintStyle } from '../../src/demo/test-mint/switches.ts';
import { invoiceField } from '../helpers/invoice-field.ts';
import { giveName } from '../helpers/names.ts';
import { giveOwnMint } from '../helpers/own-mint.ts';
import { request, type TestWallet } from '../helpers/wallet.ts';
import { openWorld, type World } from '../helpers/world.ts';
import { TEST_ZAP_SECRET_KEY, zapQuery, zapRequest } from '../helpers/zap-requests.ts';

/** What payers read in an invoice (BOLT 11): a description, or the hash of one. */

const ENV = {
  ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY,
  LNURL_TEXT: 'Für {address} 🥜',
  MAX_COMMENT_LENGTH: '2000',
};
const AMOUNT_MSAT = 21_000;

let world: World;
let alice: TestWallet;
let host: string;

beforeAll(async () => {
  world = await openWorld({ env: ENV });
  host = new URL(world.base).host;
  alice = world.newWallet();
  await giveName(world.database, alice.pubkey, 'alice');
});
afterAll(() => world.close());

const STYLES: MintStyle[] = ['nutshell', 'cdk'];

describe.each(STYLES)('at a mint like %s that takes descriptions, an invoice', (style) => {
  it('names the recipient in the operator’s words, as discovery does', async () => {
    await giveOwnMint(alice, { style });
    const pr = await invoice('alice');
    expect(invoiceField(pr, 'description')).toBe(`Für alice@${host} 🥜`);
    expect(invoiceField(pr, 'description_hash')).toBeUndefined();
    expect(JSON.parse(await metadata('alice'))[0]).toEqual(['text/plain', `Für alice@${host} 🥜`]);
  });

  it('names the recipient as the payer knows them', async () => {
    await giveOwnMint(alice, { style });
    expect(invoiceField(await invoice('ALICE'), 'description')).toBe(`Für alice@${host} 🥜`);
    expect(invoiceField(await invoice(alice.npub), 'description')).toBe(
      `Für ${alice.npub}@${host} 🥜`,
    );
  });

  it('says what the payer wrote, on one line', async () => {
    await giveOwnMint(alice, { style });
    const pr = await invoice('alice', { comment: 'Für den Tee,\nund αγάπη 🫖' });
    expect(invoiceField(pr, 'description')).toBe('Für den Tee, und αγάπη 🫖');
  });

  it('is had for the longest comment, of which it says what fits', async () => {
    await giveOwnMint(alice, { style });
    const pr = await invoice('alice', { comment: '🥜'.repeat(1_000) });
    expect(invoiceField(pr, 'description')).toBe('🥜'.repeat(159));
  });

  it('never says the zap request', async () => {
    await giveOwnMint(alice, { style });
    const { pr } = await zap();
    expect(invoiceField(pr, 'description')).toBe(`Für alice@${host} 🥜`);
  });
});

describe.each(STYLES)('at a mint like %s that takes hashes, an invoice', (style) => {
  it('carries the hash of what discovery said, whatever the payer wrote', async () => {
    await giveOwnMint(alice, { style, descriptionHash: true });
    const pr = await invoice('alice', { comment: 'For tea' });
    expect(invoiceField(pr, 'description_hash')).toBe(sha256Hex(await metadata('alice')));
    expect(invoiceField(pr, 'description')).toBeUndefined();
  });

  it('carries the hash of the zap request as it was signed', async () => {
    await giveOwnMint(alice, { style, descriptionHash: true, description: false });
    const { pr, signed } = await zap();
    expect(invoiceField(pr, 'description_hash')).toBe(sha256Hex(signed));
    expect(invoiceField(pr, 'description')).toBeUndefined();
  });
});

describe.each(STYLES)('at a mint like %s whose Lightning node bears less,', (style) => {
  it.each([400, 500])(
    'an invoice can be had where it says no to a hash with %i',
    async (status) => {
      const mint = await giveOwnMint(alice, {
        style,
        descriptionHash: true,
        refusesWords: { longerThanBytes: 0, status },
      });
      for (const { pr } of [await zap(), await zap(), { pr: await invoice('alice') }]) {
        expect(invoiceField(pr, 'description')).toBe('');
        expect(invoiceField(pr, 'description_hash')).toBeUndefined();
      }
      expect(mint.requestCounts['POST /v1/mint/quote/bolt11']).toBe(4);
    },
  );

  it.each([400, 500])(
    'a long comment that it refuses with %i leaves others theirs',
    async (status) => {
      await giveOwnMint(alice, { style, refusesWords: { longerThanBytes: 128, status } });
      const long = await invoice('alice', { comment: 'For tea '.repeat(40) });
      expect(invoiceField(long, 'description')).toBe('');
      const short = await invoice('alice', { comment: 'For tea' });
      expect(invoiceField(short, 'description')).toBe('For tea');
    },
  );
});

describe.each(STYLES)('at a mint like %s that takes neither, an invoice', (style) => {
  it('says nothing, and can be had', async () => {
    await giveOwnMint(alice, { style, description: false });
    for (const pr of [await invoice('alice'), await invoice('alice', { comment: 'For tea' })]) {
      expect(invoiceField(pr, 'description')).toBe('');
      expect(invoiceField(pr, 'description_hash')).toBeUndefined();
    }
  });
});

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
