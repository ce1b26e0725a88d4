import { beforeAll, describe, expect, it } from 'vitest';
import { insertPaidQuotes } from '../helpers/recipients/quote-fixtures.ts';
import { RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import {
  receivePayment,
  useAdditionalService,
  useTestEnvironment,
} from '../helpers/service/test-environment.ts';

const LOOKUP_PATH = '/api/v2/wallet/quotes/missing';

const HOUR_MS = 60 * 60_000;

const environment = useTestEnvironment();
let wallet: RecipientClient;

beforeAll(() => {
  wallet = environment.newWallet();
});

const lookUp = (quoteIds: unknown, client = wallet) =>
  client.send('POST', LOOKUP_PATH, { quoteIds });

describe('a lookup of quotes', () => {
  it('returns the full data of listed quotes', async () => {
    await receivePayment(environment, wallet, 'amount=1000&comment=tea');
    await receivePayment(environment, wallet, 'amount=2000');
    const listed = await wallet.listPaidQuotes();
    const ids = listed.map(({ quoteId }) => quoteId);
    const { status, headers, body } = await lookUp(ids);
    expect({ status, ...body, quotes: sortById(body.quotes) }).toEqual({
      status: 200,
      error: false,
      quotes: sortById(listed),
    });
    expect(headers.get('content-type')).toBe('application/json; charset=utf-8');
    expect((await lookUp([ids[1], ids[1], ids[1]])).body.quotes).toEqual([listed[1]]);
  });

  it('leaves out unknown, unpaid and unlisted quotes, and those of other users', async () => {
    const { pr } = await environment.requestInvoice(wallet, 3);
    const unpaid = [...environment.mint.quotes.values()].find(({ request }) => request === pr);
    const other = environment.newWallet();
    const [otherId = ''] = await insertPaidQuotes(environment.database, other.pubkey, 1);
    const early = environment.newWallet();
    const nextSecondMs = (Math.floor(Date.now() / 1000) + 4) * 1000;
    const [earlyId = '', unlistedId = ''] = await insertPaidQuotes(
      environment.database,
      early.pubkey,
      [{ paidAtMs: Date.now() - HOUR_MS }, { paidAtMs: nextSecondMs }],
    );
    await environment.database.db
      .updateTable('users')
      .set({ listed_until: nextSecondMs })
      .where('pubkey', '=', early.pubkey)
      .execute();
    // The database cannot store some of these texts.
    const strange = ['', '\0', '\ud800', '🥜', ' ', '"', "'; drop table quotes; --"];
    const { status, body } = await lookUp([unpaid?.id, otherId, 'unknown', ...strange]);
    expect({ status, body }).toEqual({ status: 200, body: { error: false, quotes: [] } });
    expect((await lookUp([])).body).toEqual({ error: false, quotes: [] });
    const unsigned = { method: 'POST', body: '{"quoteIds": []}' };
    expect((await requestJson(environment.origin, LOOKUP_PATH, unsigned)).status).toBe(401);
    expect((await lookUp([earlyId, unlistedId], early)).body.quotes).toMatchObject([
      { quoteId: earlyId },
    ]);
  });

  it('takes at most 1,000 ids of at most 256 characters', async () => {
    const rich = environment.newWallet();
    const ids = await insertPaidQuotes(environment.database, rich.pubkey, 700);
    const longIds = Array.from({ length: 300 }, (_, i) => String(i).padStart(256, 'x'));
    const { body } = await lookUp([...longIds, ...ids], rich);
    expect(sortById(body.quotes).map(({ quoteId }) => quoteId)).toEqual(ids.toSorted());

    const allLong = Array.from({ length: 1_000 }, (_, i) => String(i).padStart(256, 'x'));
    expect((await lookUp(allLong)).status).toBe(200);
    const message =
      'quoteIds: must be a list of at most 1000 quote ids, each of at most 256 characters';
    for (const quoteIds of [
      Array.from({ length: 1_001 }, String),
      ['x'.repeat(257)],
      'id',
      [1],
      [null],
      { length: 1 },
      undefined,
    ]) {
      const response = await lookUp(quoteIds);
      expect([response.status, response.body]).toEqual([
        400,
        { error: true, code: 'invalid', message },
      ]);
    }
    expect((await lookUp(['x'.repeat(300_000)])).status).toBe(413);
    // Much JSON in few bytes: it is refused before it is parsed.
    const nested = await requestJson(environment.origin, LOOKUP_PATH, {
      method: 'POST',
      headers: { authorization: wallet.signRequest(LOOKUP_PATH, 'POST') },
      body: `{"quoteIds":[${'[],'.repeat(80_000)}[]]}`,
    });
    expect([nested.status, nested.body]).toEqual([
      400,
      { error: true, code: 'invalid', message: 'The body is not valid JSON.' },
    ]);
  });

  it('is limited to 60 a minute, whatever the other limits are', async () => {
    const { publicOrigin } = await useAdditionalService(environment, {});
    const busy = new RecipientClient(publicOrigin);
    const statuses: number[] = [];
    for (let count = 0; count < 61; count += 1) {
      statuses.push((await lookUp([], busy)).status);
    }
    expect(statuses.slice(0, -1)).toEqual(Array(60).fill(200));
    expect(statuses.at(-1)).toBe(429);
    expect((await busy.get('/api/v2/wallet/quotes')).status).toBe(200);
  });
});

function sortById(quotes: Record<string, unknown>[]): Record<string, unknown>[] {
  return quotes.toSorted((a, b) => (String(a['quoteId']) < String(b['quoteId']) ? -1 : 1));
}
