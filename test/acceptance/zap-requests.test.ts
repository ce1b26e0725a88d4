import { generateSecretKey, getPublicKey } from 'nostr-tools';
import { validateZapRequest } from 'nostr-tools/nip57';
import { describe, expect, it } from 'vitest';
import { createSdkClient } from '../helpers/recipients/npubcash-sdk.ts';
import {
  type ApiResponse,
  type RecipientClient,
  requestJson,
} from '../helpers/recipients/recipient-client.ts';
import {
  buildZapQuery,
  createZapRequest,
  TEST_ZAP_SECRET_KEY,
  type ZapRequestOptions,
} from '../helpers/relays/zap-requests.ts';
import { runOperatorCommand } from '../helpers/service/run-operator-command.ts';
import {
  receivePayment,
  useAdditionalService,
  useTestEnvironment,
} from '../helpers/service/test-environment.ts';

const AMOUNT_MSAT = 21_000;
/** Unreachable, so that no receipt leaves the machine. */
const RELAYS = ['ws://127.0.0.1:1'];
const OTHER_PUBKEY = getPublicKey(generateSecretKey());

const environment = useTestEnvironment({ env: { ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY } });

// test/unit/zaps/zap-request.test.ts covers all rules for zap requests.
describe('a zap', () => {
  it('appears in the recipient’s list with its unchanged request after it is paid', async () => {
    const wallet = environment.newWallet();
    const { event } = signZapRequest(wallet, { comment: 'für dich 🥜 "\\" \n\t\b 1 + 1 & 100% #' });
    // Parsing and serializing would not preserve this unusual format.
    const reversedEvent = Object.fromEntries(Object.entries(event).reverse());
    const text = ` ${JSON.stringify(reversedEvent, null, 3).replaceAll('/', '\\/')}\n`;
    expect(validateZapRequest(text)).toBeNull();

    await receivePayment(environment, wallet, buildZapQuery(text, AMOUNT_MSAT));
    expect(await wallet.listPaidQuotes()).toMatchObject([{ zapRequest: text, amount: 21 }]);
    const [quote] = await createSdkClient(wallet).getAllQuotes();
    expect(quote).toMatchObject({ zapRequest: text, state: 'PAID' });
  });

  it.each<[string, string, (text: string) => string]>([
    ['encodeURIComponent', '1 + 1 = 2 & 100% #', encodeURIComponent],
    ['form encoding', '1 + 1 = 2 & 100% #', formEncode],
    ['encodeURI as in NIP-57', '1 + 1 = 2; 100%, you?', encodeURI],
    [
      'encodeURI and then encodeURIComponent',
      '1 + 1 = 2 100%',
      (text) => encodeURIComponent(encodeURI(text)),
    ],
    ['no encoding', '1+1&a=b', (text) => text],
  ])('is decoded if the wallet uses %s for the zap request', async (_case, comment, encode) => {
    const wallet = environment.newWallet();
    const { text } = signZapRequest(wallet, { comment });
    const amount = `amount=${AMOUNT_MSAT}`;
    const nostr = `nostr=${encode(text)}`;
    for (const query of [`${amount}&${nostr}&lnurl=lnurl1xyz`, `${nostr}&${amount}`]) {
      await expectZapStored(wallet, await fetchLnurlPay(wallet.npub, query), text);
    }
  });

  it('for another key becomes an ordinary payment, and the reason is in the trace', async () => {
    const wallet = environment.newWallet();
    const { text } = signZapRequest(wallet, { recipient: OTHER_PUBKEY });
    const query = buildZapQuery(text, AMOUNT_MSAT);
    const trace = async (pr: string) =>
      (await runOperatorCommand(environment.database, ['trace', pr])).stdout;
    const { body } = await fetchLnurlPay(wallet.npub, query);
    const reason = 'None: the zap request is for another key than the address';
    expect(await trace(body.pr)).toContain(reason);

    const paid = await receivePayment(environment, wallet, query);
    expect(await trace(paid)).toContain(reason);
    const [quote] = await wallet.listPaidQuotes();
    expect(quote).toMatchObject({ amount: 21, state: 'PAID' });
    expect(quote).not.toHaveProperty('zapRequest');
  });

  it('becomes an ordinary payment if the nostr parameter is empty', async () => {
    const wallet = environment.newWallet();
    await receivePayment(environment, wallet, `amount=${AMOUNT_MSAT}&nostr=&nostr`);
    const [quote] = await wallet.listPaidQuotes();
    expect(quote).not.toHaveProperty('zapRequest');
  });
});

describe('a service without ZAP_SECRET_KEY', () => {
  it('does not announce zaps and ignores valid and invalid zap requests', async () => {
    const service = await useAdditionalService(environment, {});
    const wallet = environment.newWallet();
    const path = `/.well-known/lnurlp/${wallet.npub}`;
    const { body } = await requestJson(service.url, path);
    expect(body).not.toHaveProperty('allowsNostr');
    expect(body).not.toHaveProperty('nostrPubkey');

    for (const nostr of ['nonsense', signZapRequest(wallet).text]) {
      const query = `${buildZapQuery(nostr, AMOUNT_MSAT)}&nostr=again`;
      const { pr } = (await requestJson(service.url, `${path}?${query}`)).body;
      expect(await listStoredQuotes(wallet, pr)).toMatchObject([{ zap_request: null }]);
    }
  });
});

function fetchLnurlPay(user: string, query: string): Promise<ApiResponse> {
  return requestJson(
    environment.origin,
    `/.well-known/lnurlp/${user}${query === '' ? '' : `?${query}`}`,
  );
}

function signZapRequest(wallet: RecipientClient, overrides: Partial<ZapRequestOptions> = {}) {
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

function listStoredQuotes(wallet: RecipientClient, invoice?: string) {
  const query = environment.database.db
    .selectFrom('quotes')
    .selectAll()
    .where('pubkey', '=', wallet.pubkey);
  return (invoice === undefined ? query : query.where('request', '=', invoice)).execute();
}

async function expectZapStored(
  wallet: RecipientClient,
  { body }: ApiResponse,
  zapRequest: string,
): Promise<void> {
  expect(body).toMatchObject({ pr: expect.any(String) });
  expect(await listStoredQuotes(wallet, body.pr)).toMatchObject([{ zap_request: zapRequest }]);
}
