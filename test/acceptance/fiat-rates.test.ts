import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { eventually } from '../helpers/eventually.ts';
import { LogCapture } from '../helpers/service/log-capture.ts';
import {
  startAdditionalService,
  useAdditionalService,
  useTestEnvironment,
} from '../helpers/service/test-environment.ts';
import { TestClock } from '../helpers/test-clock.ts';

/** Amounts in currencies on payment pages. test/web/ tests them in a browser. */

const MINUTE_MS = 60_000;

const environment = useTestEnvironment();

async function startRateSource(listener: RequestListener) {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/?ids=bitcoin`;
}

/** Starts a service whose source of exchange rates sends one response. */
async function openService(currencies: string, response: string) {
  const rateUrl = await startRateSource((_request, reply) => reply.end(response));
  const clock = new TestClock();
  const env = { FIAT_CURRENCIES: currencies, FIAT_RATE_URL: rateUrl };
  const { url } = await useAdditionalService(environment, env, { clock: clock.now });
  const { npub, pubkey } = environment.newWallet();
  const open = async (path = `/${npub}`, language = 'en') => {
    const headers = { 'accept-language': language };
    const html = await (await fetch(`${url}${path}`, { headers })).text();
    return { html, text: html.replace(/<[^>]*>/g, '').replace(/\s+/g, ' ') };
  };
  const submit = (fields: Record<string, string>) =>
    fetch(`${url}/${npub}`, {
      method: 'POST',
      body: new URLSearchParams(fields),
      redirect: 'manual',
    });
  return { npub, pubkey, clock, open, submit };
}

it.each([
  '{ "bitcoin": { "eur": 62500, "usd": 50000, "gbp": 0 } }',
  '{ "time": 1, "EUR": 62500, "USD": 50000 }',
])('are accepted in euros without JavaScript, at the rates %s', async (response) => {
  const { npub, pubkey, clock, open, submit } = await openService('EUR,USD', response);
  await eventually(async () =>
    expect((await open()).text).toContain('1,000 sats are about €0.63 or $0.50.'),
  );
  clock.advance(5 * MINUTE_MS);
  expect((await open()).text).toContain('The exchange rate is less than 6 minutes old.');

  const created = await submit({ amount: '5,50', unit: 'EUR', comment: 'Tea' });
  const invoice = await open(created.headers.get('location') ?? '');
  expect(invoice.text).toContain('8,800 sats');
  expect(invoice.text).toContain('8,800 sats are about €5.50 or $4.40.');
  expect(invoice.html).toContain(`/${npub}?amount=5%2C50&amp;comment=Tea&amp;unit=EUR`);
  const quotes = environment.database.db.selectFrom('quotes').where('pubkey', '=', pubkey);
  expect(await quotes.select('amount_sat').execute()).toEqual([{ amount_sat: 8_800 }]);

  const german = await open(created.headers.get('location') ?? '', 'de');
  expect(german.text.replaceAll('\u00a0', ' ')).toContain(
    '8.800 Sats sind etwa 5,50 € oder 4,40 $.',
  );

  const refused = await submit({ amount: '5000', unit: 'USD' });
  expect(refused.status).toBe(400);
  const html = await refused.text();
  expect(html).toContain(
    'The amount must be at most 1,000,000 sats. 1,000,000 sats are about $500.00.',
  );
  expect(html).toMatch(/<option selected[^>]*>USD</);
  const link = await open(`/${npub}?amount=1.5&unit=USD`);
  expect(link.html).toMatch(/<option selected[^>]*>USD</);
  expect(link.html).not.toContain('role="alert"');
});

it('are kept if an expired invoice is renewed, but not those of a link that somebody has changed', async () => {
  const { npub, open, submit } = await openService('EUR', '{ "EUR": 62500 }');
  await eventually(async () => expect((await open()).html).toContain('<select'));
  const created = await submit({ amount: '5,50', unit: 'EUR', comment: 'Tea' });
  const path = created.headers.get('location') ?? '';
  const readForm = async (invoicePath: string) => {
    const { html, text } = await open(invoicePath);
    const fields = [...html.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)"/g)];
    return { html, text, form: Object.fromEntries(fields.map(([, name, value]) => [name, value])) };
  };
  const invoice = await readForm(path);
  expect(invoice.form).toEqual({ amount: '5,50', unit: 'EUR', comment: 'Tea' });
  expect(invoice.text).toContain('The new invoice is over €5.50, at the exchange rate');

  const secretKey = `nsec1${'q'.repeat(58)}`;
  for (const [amount, unit] of [
    ['5000', 'EUR'],
    ['5.50', 'USD'],
    ['8800', 'sats'],
    [secretKey, 'EUR'],
    [secretKey, ''],
    ['8800', secretKey],
  ] as const) {
    const url = new URL(path, 'http://localhost');
    url.search = `${new URLSearchParams({ amount, unit })}`;
    const changed = await readForm(`${url.pathname}${url.search}`);
    expect(changed.form).toEqual({ amount: '8800', comment: 'Tea' });
    expect(changed.html).toContain(`/${npub}?amount=8800&amp;comment=Tea"`);
    expect(changed.text).not.toContain('The new invoice is over');
    expect(changed.html).not.toContain('nsec1qq');
  }
});

it('are refused if the rates are older than 15 minutes, and pages show only sats', async () => {
  const { npub, clock, open, submit } = await openService('EUR', '{ "EUR": 50000 }');
  await eventually(async () => expect((await open()).html).toContain('<select'));
  clock.advance(15 * MINUTE_MS + 1);
  const page = await open();
  expect(page.html).not.toContain('<select');
  expect(page.text).toContain('Amount in sats');
  expect(page.text).not.toContain('exchange rate');
  const refused = await submit({ amount: '5', unit: 'EUR' });
  expect(refused.status).toBe(400);
  for (const html of [await refused.text(), (await open(`/${npub}?amount=5&unit=EUR`)).html]) {
    expect(html).toContain('The exchange rate is not available right now.');
    // The field is in sats.
    expect(html).not.toContain('value="5"');
  }
});

it('do not delay a shutdown if their source does not respond', async () => {
  const requested = Promise.withResolvers<void>();
  const rateUrl = await startRateSource(() => requested.resolve());
  const logCapture = new LogCapture('warn');
  const env = { FIAT_CURRENCIES: 'EUR', FIAT_RATE_URL: rateUrl };
  const service = await startAdditionalService(environment, env, { log: logCapture.log });
  await requested.promise;
  await service.stop();
  expect(logCapture.lines.filter((line) => line.includes('shutdown_stage_failed'))).toEqual([]);
});
