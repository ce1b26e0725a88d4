import { expect, it, onTestFinished } from 'vitest';
import { createFiatRates } from '../../../../src/http/web/fiat-rates.ts';
import type { HttpResponse } from '../../../../src/net/http-client.ts';
import { LogCapture } from '../../../helpers/service/log-capture.ts';

function respond(json: unknown, status = 200): HttpResponse {
  return { outcome: 'responded', status, headers: new Map(), json, text: '' };
}

/** Creates rates whose source sends one response after another. The clock advances by 2 minutes with each. */
function createRates(responses: HttpResponse[]) {
  let nowMs = 0;
  const { log, lines } = new LogCapture('info');
  const request = async () => {
    nowMs += 120_000;
    return responses.shift() ?? respond({});
  };
  const context = { fetch: { request }, monotonicMs: () => nowMs, log };
  const rates = createFiatRates('https://rates.example', ['EUR', 'USD'], context);
  onTestFinished(() => rates.job.stop());
  return { ...rates, lines };
}

it.each([
  undefined,
  null,
  7,
  'EUR',
  [],
  { bitcoin: null },
  { bitcoin: 'eur' },
  { EUR: 50_000 },
  { EUR: 50_000, USD: 0 },
  { EUR: 50_000, USD: -1 },
  { EUR: 50_000, USD: 1e-320 },
  { EUR: 50_000, USD: 1e300 },
  { EUR: 50_000, USD: '50000' },
  { EUR: 50_000, USD: [50_000] },
  { bitcoin: { eur: 50_000, usd: Number.NaN } },
])('ignores the response %j', async (json) => {
  const { job, getCurrent } = createRates([respond(json)]);
  await job.run();
  expect(getCurrent()).toBeNull();
});

it('keeps the rates during an outage, and logs its start and its end once', async () => {
  const prices = { EUR: 50_000, USD: 62_500 };
  const { job, getCurrent, lines } = createRates([
    respond(prices),
    respond({ error: 'too many requests' }, 429),
    { outcome: 'unreachable', reason: 'timed out' },
    respond({ bitcoin: { eur: 40_000, usd: 50_000 } }),
  ]);
  const oldRates = [
    { currency: 'EUR', satsPerUnit: 2_000 },
    { currency: 'USD', satsPerUnit: 1_600 },
  ];
  await job.run();
  expect(getCurrent()).toEqual({ ageMinutes: 0, rates: oldRates });
  await job.run();
  await job.run();
  expect(getCurrent()).toEqual({ ageMinutes: 4, rates: oldRates });
  await job.run();
  expect(getCurrent()).toMatchObject({ ageMinutes: 0, rates: [{ satsPerUnit: 2_500 }, {}] });
  expect(lines.map((line) => JSON.parse(line).event)).toEqual([
    'fiat_rates_unavailable',
    'fiat_rates_recovered',
  ]);
});
