import { type Event, generateSecretKey, getPublicKey } from 'nostr-tools';
import { validateZapRequest } from 'nostr-tools/nip57';
import { describe, expect, it } from 'vitest';
import { giveName } from '../helpers/names.ts';
import { type ApiAnswer, request, type TestWallet } from '../helpers/wallet.ts';
import { sdkOf } from '../helpers/wallet-sdk.ts';
import { receive, serveBeside, useWorld } from '../helpers/world.ts';
import {
  TEST_ZAP_PUBKEY,
  TEST_ZAP_SECRET_KEY,
  type ZapOrder,
  zapQuery,
  zapRequest,
} from '../helpers/zap-requests.ts';

/** Zap requests as payers' wallets send them (NIP-57 appendix B and D). */

const CREATE_QUOTE = 'POST /v1/mint/quote/bolt11';
const AMOUNT_MSAT = 21_000;
/** Nobody listens there: no receipt of these tests leaves the machine. */
const RELAYS = ['ws://127.0.0.1:1'];
const SOMEBODY_ELSE = getPublicKey(generateSecretKey());

const world = useWorld({ env: { ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY } });

it('an address that takes zaps says so, with the key that receipts are signed with', async () => {
  const { body } = await ask(world.newWallet().npub, '');
  expect(body).toMatchObject({ allowsNostr: true, nostrPubkey: TEST_ZAP_PUBKEY });
});

describe('a zap', () => {
  it('is in the recipient’s list, once paid, with its request to the byte', async () => {
    const wallet = world.newWallet();
    const { event } = zapFor(wallet, { comment: 'für dich 🥜 "\\" \n\t\b 1 + 1 & 100% #' });
    // Not as JSON is usually written, and not as it would be written again.
    const reversed = Object.fromEntries(Object.entries(event).reverse());
    const text = ` ${JSON.stringify(reversed, null, 3).replaceAll('/', '\\/')}\n`;
    expect(validateZapRequest(text)).toBeNull();

    await receive(world, wallet, zapQuery(text, AMOUNT_MSAT));
    expect(await wallet.listQuotes()).toMatchObject([{ zapRequest: text, amount: 21 }]);
    const [quote] = await sdkOf(wallet).getAllQuotes();
    expect(quote).toMatchObject({ zapRequest: text, state: 'PAID' });
  });

  it('of a note goes to the owner of a name', async () => {
    const wallet = world.newWallet();
    await giveName(world.database, wallet.pubkey, 'zapped');
    const note = wallet.signedEvent('/', 'GET', { kind: 1 });
    const { text } = zapFor(wallet, { note });
    await expectKept(wallet, await ask('Zapped', zapQuery(text, AMOUNT_MSAT)), text);
  });

  it.each<[string, string, (text: string) => string]>([
    ['encodeURIComponent', '1 + 1 = 2 & 100% #', encodeURIComponent],
    ['a form', '1 + 1 = 2 & 100% #', asForm],
    ['encodeURI, as NIP-57 shows it', '1 + 1 = 2; 100%, you?', encodeURI],
    ['encodeURIComponent twice', '1 + 1 = 2 & 100% #', (text) => twice(encodeURIComponent, text)],
    [
      'encodeURI, and then encodeURIComponent',
      '1 + 1 = 2 100%',
      (text) => encodeURIComponent(encodeURI(text)),
    ],
    ['nothing at all', '1+1', (text) => text],
    ['a form, and then encodeURIComponent', '1 + 1', (text) => encodeURIComponent(asForm(text))],
    ['a form twice', '1 + 1', (text) => twice(asForm, text)],
    ['encodeURI twice', '1 + 1', (text) => twice(encodeURI, text)],
  ])('is read where it was encoded by %s', async (_how, comment, encode) => {
    const wallet = world.newWallet();
    const { text } = zapFor(wallet, { comment });
    const query = `amount=${AMOUNT_MSAT}&nostr=${encode(text)}&lnurl=lnurl1xyz`;
    await expectKept(wallet, await ask(wallet.npub, query), text);
  });

  it('may come with a comment of its own', async () => {
    const wallet = world.newWallet();
    const { text } = zapFor(wallet, { comment: 'for all to see' });
    await receive(world, wallet, `${zapQuery(text, AMOUNT_MSAT)}&comment=for+you`);
    expect(await wallet.listQuotes()).toMatchObject([{ zapRequest: text, comment: 'for you' }]);
  });

  it('is an ordinary payment where the parameter is empty', async () => {
    const wallet = world.newWallet();
    await receive(world, wallet, `amount=${AMOUNT_MSAT}&nostr=&nostr`);
    const [quote] = await wallet.listQuotes();
    expect(quote).not.toHaveProperty('zapRequest');
  });
});

describe('without a key for receipts', () => {
  it('nothing is announced, and a zap request is passed over, whatever it is', async () => {
    const service = await serveBeside(world, {});
    const wallet = world.newWallet();
    const path = `/.well-known/lnurlp/${wallet.npub}`;
    const { body } = await request(service.url, path);
    expect(body).not.toHaveProperty('allowsNostr');
    expect(body).not.toHaveProperty('nostrPubkey');

    for (const nostr of ['nonsense', zapFor(wallet).text]) {
      const query = `${zapQuery(nostr, AMOUNT_MSAT)}&nostr=again`;
      const { pr } = (await request(service.url, `${path}?${query}`)).body;
      expect(await keptQuotes(wallet, pr)).toMatchObject([{ zap_request: null }]);
    }
  });
});

// test/unit/zap-request.test.ts has all rules.
describe('an invalid zap request is rejected with a reason, and creates no quote', () => {
  it.each<[string, RegExp, Partial<ZapOrder>]>([
    ['another recipient', /public key of this address.*'p' tag/, { recipient: SOMEBODY_ELSE }],
    ['another amount', /'amount' tag.*: 21000 millisatoshis/, { amountMsat: 1_000 }],
    ['no relays', /at least one relay/, { relays: [] }],
  ])('%s', async (_case, reason, order) => {
    const wallet = world.newWallet();
    const { text } = zapFor(wallet, order);
    await expectRefused(wallet, zapQuery(text, AMOUNT_MSAT), reason);
  });

  it.each<[string, RegExp, (event: Event) => string]>([
    ['no JSON', /not JSON. Encode it with encodeURIComponent, once/, () => 'zap'],
    ['forged content', /signature/, (event) => JSON.stringify({ ...event, content: '!' })],
    ['three encodings', /not JSON/, (event) => twice(encodeURIComponent, JSON.stringify(event))],
  ])('%s', async (_case, reason, write) => {
    const wallet = world.newWallet();
    await expectRefused(wallet, zapQuery(write(zapFor(wallet).event), AMOUNT_MSAT), reason);
  });

  it.each(['%FF%FE', '%7B%', '%00', '+', '%257B%25FF'])('the parameter %s', async (value) => {
    const query = `amount=${AMOUNT_MSAT}&nostr=${value}`;
    await expectRefused(world.newWallet(), query, /not JSON/);
  });
});

function ask(user: string, query: string): Promise<ApiAnswer> {
  return request(world.base, `/.well-known/lnurlp/${user}${query === '' ? '' : `?${query}`}`);
}

function zapFor(wallet: TestWallet, order: Partial<ZapOrder> = {}) {
  return zapRequest({
    recipient: wallet.pubkey,
    amountMsat: AMOUNT_MSAT,
    relays: RELAYS,
    ...order,
  });
}

/** How browsers and Java write a value, a blank as `+`. */
function asForm(text: string): string {
  return new URLSearchParams({ x: text }).toString().slice(2);
}

function twice(encode: (text: string) => string, text: string): string {
  return encode(encode(text));
}

function keptQuotes(wallet: TestWallet, invoice?: string) {
  const kept = world.database.db
    .selectFrom('quotes')
    .selectAll()
    .where('pubkey', '=', wallet.pubkey);
  return (invoice === undefined ? kept : kept.where('request', '=', invoice)).execute();
}

async function expectKept(wallet: TestWallet, { body }: ApiAnswer, text: string): Promise<void> {
  expect(body).toMatchObject({ pr: expect.any(String) });
  expect(await keptQuotes(wallet, body.pr)).toMatchObject([{ zap_request: text }]);
}

async function expectRefused(wallet: TestWallet, query: string, reason: RegExp): Promise<void> {
  const before = world.mint.requestCounts[CREATE_QUOTE];
  const { status, body } = await ask(wallet.npub, query);
  expect({ status, body }).toEqual({
    status: 200,
    body: { status: 'ERROR', reason: expect.stringMatching(reason) },
  });
  expect(body.reason).toMatch(/^The .*zap request/);
  expect(world.mint.requestCounts[CREATE_QUOTE]).toBe(before);
  expect(await keptQuotes(wallet)).toEqual([]);
}
