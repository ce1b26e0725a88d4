import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';

const MAIN = fileURLToPath(new URL('../../src/demo/test-mint-main.ts', import.meta.url));

test('the test mint runs in a process of its own, where another can pay its invoices', async () => {
  const child = spawn(process.execPath, [MAIN, '0', '{"minAmountSat":7}']);
  onTestFinished(() => void child.kill('SIGKILL'));
  const [line] = (await once(createInterface(child.stdout), 'line')) as [string];
  const { url, payUrl } = JSON.parse(line) as { url: string; payUrl: string };

  const { quote, request } = await postJson(`${url}/v1/mint/quote/bolt11`, {
    amount: 21,
    unit: 'sat',
  });
  expect((await postTo(payUrl, { request })).status).toBe(200);
  expect((await postTo(payUrl, { request: 'lnbc1unknown' })).status).toBe(400);
  expect(await getJson(`${url}/v1/mint/quote/bolt11/${quote}`)).toMatchObject({ state: 'PAID' });
  expect(await getJson(`${url}/v1/info`)).toMatchObject({
    nuts: { 4: { methods: [{ min_amount: 7 }] } },
  });

  child.kill('SIGTERM');
  expect(await once(child, 'exit')).toEqual([0, null]);
});

function postTo(url: string, body: object): Promise<Response> {
  return fetch(url, { method: 'POST', body: JSON.stringify(body) });
}

async function postJson(url: string, body: object): Promise<Record<string, string>> {
  return (await (await postTo(url, body)).json()) as Record<string, string>;
}

async function getJson(url: string): Promise<unknown> {
  return (await fetch(url)).json();
}
