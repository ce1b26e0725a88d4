import { Wallet } from '@cashu/cashu-ts';
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { TestMint } from '../../src/demo/test-mint.ts';
import { MintSocketClient } from '../helpers/mint-socket-client.ts';

/** The WebSocket of the test mint (NUT-17), against what was recorded from real mints. */

let mint: TestMint;

beforeEach(async () => {
  mint = await TestMint.start();
});

afterEach(() => mint.close());

test('a subscriber gets OK, the state as it is, and every change', async () => {
  const { quote, request } = await createQuote();
  const client = await openClient();
  client.subscribe('sub-1', [quote]);
  expect(await client.next()).toEqual({
    jsonrpc: '2.0',
    result: { status: 'OK', subId: 'sub-1' },
    id: 1,
  });
  expect(await client.next()).toMatchObject({
    method: 'subscribe',
    params: { subId: 'sub-1', payload: { quote, state: 'UNPAID', amount_paid: 0 } },
  });
  mint.pay(request);
  expect(await client.next()).toMatchObject({
    params: { subId: 'sub-1', payload: { quote, state: 'PAID', amount_paid: 21 } },
  });
});

test('an unknown quote gets OK, then silence', async () => {
  const { quote } = await createQuote();
  const client = await openClient();
  client.subscribe('sub-1', ['0192f0c0-0000-7000-8000-000000000000']);
  client.subscribe('sub-2', [quote]);
  expect((await client.next()).result?.subId).toBe('sub-1');
  expect((await client.next()).result?.subId).toBe('sub-2');
  expect((await client.next()).params?.payload.quote).toBe(quote);
});

test('who has unsubscribed hears nothing more', async () => {
  const { quote, request } = await createQuote();
  const client = await openClient();
  client.subscribe('sub-1', [quote]);
  client.call('unsubscribe', { subId: 'sub-1' });
  await client.next();
  expect(await client.nextState()).toBe('UNPAID');
  expect((await client.next()).result).toEqual({ status: 'OK', subId: 'sub-1' });
  mint.pay(request);
  client.subscribe('sub-2', []);
  expect((await client.next()).result?.subId).toBe('sub-2');
});

describe('mistakes are answered as Nutshell does', () => {
  test.each([
    ['unsubscribe', { subId: 'never' }, -32603, 'Error: Subscription not found: never'],
    ['subscribe', { kind: 'nonsense', subId: 's', filters: ['x'] }, -32603, 'validation error'],
  ])('%s with %o', async (method, params, code, message) => {
    const client = await openClient();
    client.call(method, params);
    const { id, error } = await client.next();
    expect(id).toBe(1);
    expect(error).toMatchObject({ code, message: expect.stringContaining(message) });
  });

  test('what is no JSON', async () => {
    const client = await openClient();
    client.sendText('this is not JSON');
    expect(await client.next()).toMatchObject({ error: { code: -32700 }, id: 0 });
  });

  test('more than a thousand filters in the life of a connection', async () => {
    const client = await openClient();
    client.subscribe('sub-1', thousandIds());
    client.call('unsubscribe', { subId: 'sub-1' });
    client.subscribe('sub-2', ['one more']);
    await client.next();
    await client.next();
    expect((await client.next()).error?.message).toBe('Error: Max subscriptions reached');
  });
});

describe('mistakes are answered as cdk does', () => {
  beforeEach(() => {
    mint.switches.style = 'cdk';
  });

  test.each([
    ['unsubscribe', { subId: 'never' }, -32602],
    ['subscribe', { kind: 'nonsense', subId: 's', filters: ['x'] }, -32700],
    [
      'subscribe',
      { kind: 'bolt11_mint_quote', subId: 's', filters: thousandIds().concat('x') },
      -32602,
    ],
  ])('%s', async (method, params, code) => {
    const client = await openClient();
    client.call(method, params);
    expect(await client.next()).toMatchObject({ id: 1, error: { code } });
  });

  test('what is no JSON is ignored, and filters do not wear a connection out', async () => {
    const client = await openClient();
    client.sendText('this is not JSON');
    client.subscribe('sub-1', thousandIds());
    client.subscribe('sub-2', ['one more']);
    expect((await client.next()).result?.subId).toBe('sub-1');
    expect((await client.next()).result?.subId).toBe('sub-2');
  });

  test('a hundred subscriptions are enough for one connection', async () => {
    const client = await openClient();
    for (let i = 0; i < 100; i += 1) {
      client.subscribe(`sub-${i}`, []);
      expect((await client.next()).result?.status).toBe('OK');
    }
    client.subscribe('sub-100', []);
    expect((await client.next()).error?.code).toBe(-32602);
  });
});

describe('switches', () => {
  test('without a socket nobody gets one, and none is announced', async () => {
    mint.switches.socket = false;
    await expect(MintSocketClient.open(mint.url)).rejects.toThrow('404');
    expect((await info()).nuts).not.toHaveProperty('17');
    mint.switches.socket = true;
    expect((await info()).nuts[17]).toEqual({
      supported: [{ method: 'bolt11', unit: 'sat', commands: ['bolt11_mint_quote'] }],
    });
  });

  test('a silent socket says OK and no more', async () => {
    mint.switches.socketSilent = true;
    const { quote, request } = await createQuote();
    const client = await openClient();
    client.subscribe('sub-1', [quote]);
    mint.pay(request);
    client.subscribe('sub-2', [quote]);
    expect((await client.next()).result?.subId).toBe('sub-1');
    expect((await client.next()).result?.subId).toBe('sub-2');
  });

  test('a dead mint leaves an opening unanswered, and open sockets without news', async () => {
    const { quote, request } = await createQuote();
    const client = await openClient();
    client.subscribe('sub-1', [quote]);
    await client.next();
    expect(await client.nextState()).toBe('UNPAID');

    mint.switches.dead = true;
    const PATIENCE_MS = 50;
    const opening = MintSocketClient.open(mint.url).then(() => 'opened');
    opening.catch(() => {});
    const patience = new Promise((resolve) => setTimeout(resolve, PATIENCE_MS, 'still waiting'));
    expect(await Promise.race([opening, patience])).toBe('still waiting');
    expect(mint.requestCounts['GET /v1/ws']).toBe(2);

    mint.pay(request);
    mint.switches.dead = false;
    client.subscribe('sub-2', []);
    expect((await client.next()).result?.subId).toBe('sub-2');
  });

  test('openings and messages share the rate limit; what is refused is not done', async () => {
    const first = await createQuote();
    const second = await createQuote();
    mint.switches.rateLimit = { perMinute: 2 };
    const client = await openClient();
    client.subscribe('sub-1', [first.quote]);
    expect((await client.next()).result?.status).toBe('OK');
    expect(await client.nextState()).toBe('UNPAID');
    client.subscribe('sub-2', [second.quote]);
    expect(await client.next()).toEqual({
      jsonrpc: '2.0',
      error: { code: -32000, message: 'Error: Rate limit exceeded' },
      id: 0,
    });
    await expect(MintSocketClient.open(mint.url)).rejects.toThrow('500');
    mint.pay(second.request);
    mint.pay(first.request);
    expect((await client.next()).params).toMatchObject({
      subId: 'sub-1',
      payload: { quote: first.quote, state: 'PAID' },
    });
  });

  test('a quote is PENDING while it is issued, where the mint takes its time', async () => {
    // The second request has to come within it.
    mint.switches.issuePauseMs = 1_500;
    const { quote, request } = await createQuote();
    mint.pay(request);
    const client = await openClient();
    client.subscribe('sub-1', [quote]);
    await client.next();
    expect(await client.nextState()).toBe('PAID');
    const wallet = new Wallet(mint.url);
    await wallet.loadMint();
    const minted = wallet.mintProofsBolt11(21, quote);
    expect((await client.next()).params?.payload).toMatchObject({
      state: 'PENDING',
      amount_paid: 0,
    });
    await expect(wallet.mintProofsBolt11(21, quote)).rejects.toMatchObject({ code: 20005 });
    expect((await client.next()).params?.payload).toMatchObject({
      state: 'ISSUED',
      amount_issued: 21,
    });
    await minted;
  });
});

test('open sockets are counted, and dropped when the line breaks', async () => {
  const client = await openClient();
  expect(mint.openSocketCount).toBe(1);
  mint.dropSockets();
  await client.closed();
  await expect.poll(() => mint.openSocketCount).toBe(0);
});

async function openClient(): Promise<MintSocketClient> {
  const client = await MintSocketClient.open(mint.url);
  onTestFinished(() => client.close());
  return client;
}

async function createQuote(): Promise<{ quote: string; request: string }> {
  const response = await fetch(`${mint.url}/v1/mint/quote/bolt11`, {
    method: 'POST',
    body: JSON.stringify({ amount: 21, unit: 'sat' }),
  });
  return (await response.json()) as { quote: string; request: string };
}

async function info(): Promise<{ nuts: Record<string, unknown> }> {
  const response = await fetch(`${mint.url}/v1/info`);
  return (await response.json()) as { nuts: Record<string, unknown> };
}

function thousandIds(): string[] {
  return Array.from({ length: 1000 }, (_, i) => `quote-${i}`);
}
