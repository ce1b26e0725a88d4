import { type Event, generateSecretKey, getPublicKey } from 'nostr-tools';
import { validateZapRequest } from 'nostr-tools/nip57';
import { describe, expect, it } from 'vitest';
import { assignUsername } from '../helpers/names.ts';
import {
  receivePayment,
  useAdditionalService,
  useTestEnvironment,
} from '../helpers/test-environment.ts';
import { type ApiResponse, requestJson, type TestWallet } from '../helpers/test-wallet.ts';
import { createSdkClient } from '../helpers/wallet-sdk.ts';
import {
  buildZapQuery,
  createZapRequest,
  TEST_ZAP_PUBKEY,
  TEST_ZAP_SECRET_KEY,
  type ZapRequestOptions,
} from '../helpers/zap-requests.ts';

/** See NIP-57 appendixes B and D. */

const CREATE_QUOTE = 'POST /v1/mint/quote/bolt11';
const AMOUNT_MSAT = 21_000;
/** Unreachable, so that no receipt leaves the machine. */
const RELAYS = ['ws://127.0.0.1:1'];
const OTHER_PUBKEY = getPublicKey(generateSecretKey());

const world = useTestEnvironment({ env: { ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY } });

it('announces zap support with the key that signs receipts', async () => {
  const { body } = await requestPay(world.newWallet().npub, '');
  expect(body).toMatchObject({ allowsNostr: true, nostrPubkey: TEST_ZAP_PUBKEY });
});

describe('a zap', () => {
  it('appears in the recipient’s list with its unchanged request after it is paid', async () => {
    const wallet = world.newWallet();
    const { event } = zapFor(wallet, { comment: 'für dich 🥜 "\\" \n\t\b 1 + 1 & 100% #' });
    // Unusual formatting that a parse and stringify would not preserve.
    const reversed = Object.fromEntries(Object.entries(event).reverse());
    const text = ` ${JSON.stringify(reversed, null, 3).replaceAll('/', '\\/')}\n`;
    expect(validateZapRequest(text)).toBeNull();

    await receivePayment(world, wallet, buildZapQuery(text, AMOUNT_MSAT));
    expect(await wallet.listQuotes()).toMatchObject([{ zapRequest: text, amount: 21 }]);
    const [quote] = await createSdkClient(wallet).getAllQuotes();
    expect(quote).toMatchObject({ zapRequest: text, state: 'PAID' });
  });

  it('of a note reaches the owner of a username', async () => {
    const wallet = world.newWallet();
    await assignUsername(world.database, wallet.pubkey, 'zapped');
    const note = wallet.createNip98Event('/', 'GET', { kind: 1 });
    const { text } = zapFor(wallet, { note });
    await expectStored(wallet, await requestPay('Zapped', buildZapQuery(text, AMOUNT_MSAT)), text);
  });

  it.each<[string, string, (text: string) => string]>([
    ['encodeURIComponent', '1 + 1 = 2 & 100% #', encodeURIComponent],
    ['form encoding', '1 + 1 = 2 & 100% #', formEncode],
    ['encodeURI as in NIP-57', '1 + 1 = 2; 100%, you?', encodeURI],
    ['encodeURIComponent twice', '1 + 1 = 2 & 100% #', (text) => twice(encodeURIComponent, text)],
    [
      'encodeURI and then encodeURIComponent',
      '1 + 1 = 2 100%',
      (text) => encodeURIComponent(encodeURI(text)),
    ],
    ['no encoding', '1+1', (text) => text],
    [
      'form encoding and then encodeURIComponent',
      '1 + 1',
      (text) => encodeURIComponent(formEncode(text)),
    ],
    ['form encoding twice', '1 + 1', (text) => twice(formEncode, text)],
    ['encodeURI twice', '1 + 1', (text) => twice(encodeURI, text)],
  ])('is decoded from %s', async (_case, comment, encode) => {
    const wallet = world.newWallet();
    const { text } = zapFor(wallet, { comment });
    const query = `amount=${AMOUNT_MSAT}&nostr=${encode(text)}&lnurl=lnurl1xyz`;
    await expectStored(wallet, await requestPay(wallet.npub, query), text);
  });

  it('may be sent together with a comment', async () => {
    const wallet = world.newWallet();
    const { text } = zapFor(wallet, { comment: 'for all to see' });
    await receivePayment(world, wallet, `${buildZapQuery(text, AMOUNT_MSAT)}&comment=for+you`);
    expect(await wallet.listQuotes()).toMatchObject([{ zapRequest: text, comment: 'for you' }]);
  });

  it('is an ordinary payment if the parameter is empty', async () => {
    const wallet = world.newWallet();
    await receivePayment(world, wallet, `amount=${AMOUNT_MSAT}&nostr=&nostr`);
    const [quote] = await wallet.listQuotes();
    expect(quote).not.toHaveProperty('zapRequest');
  });
});

describe('a service without ZAP_SECRET_KEY', () => {
  it('does not announce zaps and ignores valid and invalid zap requests', async () => {
    const service = await useAdditionalService(world, {});
    const wallet = world.newWallet();
    const path = `/.well-known/lnurlp/${wallet.npub}`;
    const { body } = await requestJson(service.url, path);
    expect(body).not.toHaveProperty('allowsNostr');
    expect(body).not.toHaveProperty('nostrPubkey');

    for (const nostr of ['nonsense', zapFor(wallet).text]) {
      const query = `${buildZapQuery(nostr, AMOUNT_MSAT)}&nostr=again`;
      const { pr } = (await requestJson(service.url, `${path}?${query}`)).body;
      expect(await listStoredQuotes(wallet, pr)).toMatchObject([{ zap_request: null }]);
    }
  });
});

// test/unit/zap-request.test.ts covers every rule.
describe('an invalid zap request', () => {
  it.each<[string, RegExp, Partial<ZapRequestOptions>]>([
    ['another recipient', /public key of this address.*'p' tag/, { recipient: OTHER_PUBKEY }],
    ['another amount', /'amount' tag.*: 21000 millisatoshis/, { amountMsat: 1_000 }],
    ['no relays', /at least one wss/, { relays: [] }],
  ])('with %s is rejected with a reason and creates no quote', async (_case, reason, overrides) => {
    const wallet = world.newWallet();
    const { text } = zapFor(wallet, overrides);
    await expectRejected(wallet, buildZapQuery(text, AMOUNT_MSAT), reason);
  });

  it.each<[string, RegExp, (event: Event) => string]>([
    ['text that is not JSON', /not JSON. Encode it with encodeURIComponent, once/, () => 'zap'],
    ['forged content', /signature/, (event) => JSON.stringify({ ...event, content: '!' })],
    ['three encodings', /not JSON/, (event) => twice(encodeURIComponent, JSON.stringify(event))],
  ])('with %s is rejected with a reason and creates no quote', async (_case, reason, serialize) => {
    const wallet = world.newWallet();
    await expectRejected(
      wallet,
      buildZapQuery(serialize(zapFor(wallet).event), AMOUNT_MSAT),
      reason,
    );
  });

  it.each(['%FF%FE', '%7B%', '%00', '+', '%257B%25FF'])(
    'is rejected as not JSON if the parameter is %s',
    async (value) => {
      const query = `amount=${AMOUNT_MSAT}&nostr=${value}`;
      await expectRejected(world.newWallet(), query, /not JSON/);
    },
  );
});

function requestPay(user: string, query: string): Promise<ApiResponse> {
  return requestJson(world.origin, `/.well-known/lnurlp/${user}${query === '' ? '' : `?${query}`}`);
}

function zapFor(wallet: TestWallet, overrides: Partial<ZapRequestOptions> = {}) {
  return createZapRequest({
    recipient: wallet.pubkey,
    amountMsat: AMOUNT_MSAT,
    relays: RELAYS,
    ...overrides,
  });
}

/** Encodes a value like HTML forms and Java's URLEncoder: a space becomes `+`. */
function formEncode(text: string): string {
  return new URLSearchParams({ x: text }).toString().slice(2);
}

function twice(encode: (text: string) => string, text: string): string {
  return encode(encode(text));
}

function listStoredQuotes(wallet: TestWallet, invoice?: string) {
  const query = world.database.db
    .selectFrom('quotes')
    .selectAll()
    .where('pubkey', '=', wallet.pubkey);
  return (invoice === undefined ? query : query.where('request', '=', invoice)).execute();
}

async function expectStored(
  wallet: TestWallet,
  { body }: ApiResponse,
  text: string,
): Promise<void> {
  expect(body).toMatchObject({ pr: expect.any(String) });
  expect(await listStoredQuotes(wallet, body.pr)).toMatchObject([{ zap_request: text }]);
}

async function expectRejected(wallet: TestWallet, query: string, reason: RegExp): Promise<void> {
  const before = world.mint.requestCounts[CREATE_QUOTE];
  const { status, body } = await requestPay(wallet.npub, query);
  expect({ status, body }).toEqual({
    status: 200,
    body: { status: 'ERROR', reason: expect.stringMatching(reason) },
  });
  expect(body.reason).toMatch(/^The .*zap request/);
  expect(world.mint.requestCounts[CREATE_QUOTE]).toBe(before);
  expect(await listStoredQuotes(wallet)).toEqual([]);
}
