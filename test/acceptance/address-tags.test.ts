import { beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../helpers/eventually.ts';
import { assignUsername } from '../helpers/recipients/assign-username.ts';
import { type RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import { runOperatorCommand } from '../helpers/service/run-operator-command.ts';
import { useTestEnvironment } from '../helpers/service/test-environment.ts';

const environment = useTestEnvironment();
let alice: RecipientClient;
let host: string;

beforeAll(async () => {
  alice = environment.newWallet();
  await assignUsername(environment.database, alice.pubkey, 'alice');
  ({ host } = new URL(environment.origin));
});

const discover = async (localPart: string) =>
  (await requestJson(environment.origin, `/.well-known/lnurlp/${localPart}`)).body;

describe('an address with a tag', () => {
  it.each([
    ['alice+shop', 'alice', 'shop'],
    ['alice%2Bshop', 'alice', 'shop'],
    ['alice+2026-11_a.b+c', 'alice', '2026-11_a.b+c'],
    [`alice+${'x'.repeat(64)}`, 'alice', 'x'.repeat(64)],
    ['<npub>+shop', '<npub>', 'shop'],
  ])('%s pays the account, and the metadata names the tag', async (template, account, tag) => {
    const withNpub = (text: string) => text.replace('<npub>', alice.npub);
    const { metadata, callback } = await discover(withNpub(template));
    const address = `${withNpub(account)}@${host}`;
    expect(JSON.parse(metadata)).toEqual([
      ['text/plain', `Payment to ${address}`],
      ['text/identifier', address],
      ['text/tag', tag],
    ]);
    const path = callback.slice(environment.origin.length);
    expect(decodeURIComponent(path)).toBe(`/.well-known/lnurlp/${withNpub(account)}+${tag}`);

    const { body } = await requestJson(environment.origin, `${path}?amount=5000`);
    environment.mint.pay(body.pr);
    await eventually(async () =>
      expect((await requestJson(body.verify, '')).body).toMatchObject({ settled: true }),
    );
    await eventually(async () => {
      const quotes = await alice.listPaidQuotes();
      expect(quotes.find(({ request }) => request === body.pr)).toMatchObject({ tag, amount: 5 });
    });
  });

  it.each(['alice+', 'alice+sh%20op', `alice+${'x'.repeat(65)}`, 'nobody+shop'])(
    '%s has no recipient',
    async (localPart) => {
      const error = { status: 'ERROR', reason: 'Recipient unavailable.' };
      expect(await discover(localPart)).toEqual(error);
    },
  );

  it('has a payment page, whose invoice names the tag', async () => {
    const page = await fetch(`${environment.origin}/alice+shop`);
    expect(page.status).toBe(200);
    expect(await page.text()).toContain(`alice+shop@${host}`);
    const form = { method: 'POST', body: new URLSearchParams({ amount: '1234' }) };
    const invoicePage = await fetch(`${environment.origin}/alice+shop`, form);
    expect(new URL(invoicePage.url).pathname).toMatch(/^\/alice\+shop\/invoice\/[0-9a-f]{64}$/);
    expect(await invoicePage.text()).toContain(`alice+shop@${host}`);
    const quotes = environment.database.db.selectFrom('quotes').where('amount_sat', '=', 1_234);
    expect(await quotes.select('tag').execute()).toEqual([{ tag: 'shop' }]);
  });

  it('is no name for NIP-05', async () => {
    const path = '/.well-known/nostr.json?name=alice%2Bshop';
    expect((await requestJson(environment.origin, path)).body).toEqual({ names: {}, relays: {} });
  });

  it('is shown by `nutpost trace`, which also finds the recipient by it', async () => {
    const wallet = environment.newWallet();
    await assignUsername(environment.database, wallet.pubkey, 'bob');
    const { pr } = (
      await requestJson(environment.origin, '/.well-known/lnurlp/bob+blog?amount=7000')
    ).body;
    const trace = (text: string) => runOperatorCommand(environment.database, ['trace', text]);
    expect((await trace(pr)).stdout).toContain('  Tag           blog\n');
    expect((await trace(`bob+blog@${host}`)).stdout).toContain('bob');
  });
});
