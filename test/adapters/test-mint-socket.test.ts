import { afterEach, beforeEach, expect, it, onTestFinished } from 'vitest';
import { TestMint } from '../../demo/test-mint.ts';
import { MintSocketClient } from '../helpers/mint-socket-client.ts';

/** The WebSocket of the test mint (NUT-17). */

let mint: TestMint;
let quote: string;
let request: string;

beforeEach(async () => {
  mint = await TestMint.start();
  const body = JSON.stringify({ amount: 21, unit: 'sat' });
  const response = await fetch(`${mint.url}/v1/mint/quote/bolt11`, { method: 'POST', body });
  ({ quote, request } = (await response.json()) as { quote: string; request: string });
});

afterEach(() => mint.close());

it('confirms a subscription, sends the state of known quotes, and every change', async () => {
  const client = await openClient();
  client.subscribe('sub-1', ['unknown', quote]);
  const result = { status: 'OK', subId: 'sub-1' };
  expect(await client.next()).toEqual({ jsonrpc: '2.0', result, id: 1 });
  expect(await client.next()).toMatchObject({
    method: 'subscribe',
    params: { subId: 'sub-1', payload: { quote, state: 'UNPAID', amount_paid: 0 } },
  });
  mint.pay(request);
  expect((await client.next()).params?.payload).toMatchObject({ state: 'PAID', amount_paid: 21 });
  client.call('unsubscribe', { subId: 'sub-1' });
  expect((await client.next()).result).toEqual(result);
  await mint.issue(quote);
  client.subscribe('sub-2', []);
  expect((await client.next()).result?.subId).toBe('sub-2');
});

it('refuses subscriptions after a thousand filters', async () => {
  const client = await openClient();
  client.subscribe('sub-1', new Array<string>(1000).fill(quote.slice(1)));
  client.subscribe('sub-2', [quote]);
  expect((await client.next()).result?.status).toBe('OK');
  expect((await client.next()).error?.message).toBe('Error: Max subscriptions reached');
});

it('shares a rate limit between openings and messages', async () => {
  mint.switches.rateLimit = { perMinute: 2 };
  const client = await openClient();
  client.subscribe('sub-1', []);
  expect((await client.next()).result?.status).toBe('OK');
  client.subscribe('sub-2', []);
  const error = { code: -32000, message: 'Error: Rate limit exceeded' };
  expect(await client.next()).toEqual({ jsonrpc: '2.0', error, id: 0 });
  await expect(openClient()).rejects.toThrow('500');
});

it.each([
  [{ socket: false }, '404'],
  [{ chaos: { rates: { brokenOpening: 1 } } }, '503'],
])('refuses to open with %j', async (switches, status) => {
  Object.assign(mint.switches, switches);
  await expect(openClient()).rejects.toThrow(status);
});

it('never answers an opening when it is dead, and sends no states', async () => {
  const client = await openClient();
  client.subscribe('sub-1', [quote]);
  expect((await client.next()).result?.subId).toBe('sub-1');
  expect(await client.nextState()).toBe('UNPAID');
  mint.switches.dead = true;
  const opening = openClient().then(() => 'opened');
  opening.catch(() => {});
  await expect.poll(() => mint.requestCounts['GET /v1/ws']).toBe(2);
  mint.pay(request);
  mint.switches.dead = false;
  client.subscribe('sub-2', []);
  expect((await client.next()).result?.subId).toBe('sub-2');
  await mint.close();
  await expect(opening).rejects.toThrow();
});

it('confirms subscriptions without states when it is silent', async () => {
  mint.switches.socketSilent = true;
  const client = await openClient();
  client.subscribe('sub-1', [quote]);
  mint.pay(request);
  client.subscribe('sub-2', [quote]);
  expect((await client.next()).result?.subId).toBe('sub-1');
  expect((await client.next()).result?.subId).toBe('sub-2');
});

it('loses, repeats and delays messages, and sends stale states, with chaos', async () => {
  mint.pay(request);
  const client = await openClient();
  mint.switches.chaos = { rates: { lostMessage: 1 } };
  client.subscribe('lost', []);
  await expect.poll(() => mint.chaosCounts.lostMessage).toBe(1);
  mint.switches.chaos = { rates: { lateMessage: 1 } };
  client.subscribe('late', []);
  await expect.poll(() => mint.chaosCounts.lateMessage).toBe(1);
  mint.switches.chaos = { rates: { repeatedMessage: 1, staleFirstState: 1 } };
  client.subscribe('twice', [quote]);
  for (let count = 0; count < 2; count += 1) {
    expect((await client.next()).result?.subId).toBe('twice');
  }
  expect([await client.nextState(), await client.nextState()]).toEqual(['UNPAID', 'UNPAID']);
  expect((await client.next()).result?.subId).toBe('late');
});

async function openClient(): Promise<MintSocketClient> {
  const client = await MintSocketClient.open(mint.url);
  onTestFinished(() => client.close());
  return client;
}
