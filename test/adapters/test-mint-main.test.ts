import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { expect, it, onTestFinished } from 'vitest';

const MAIN = fileURLToPath(new URL('../../demo/test-mint-main.ts', import.meta.url));

it('runs a test mint in a process of its own, with a pay desk', async () => {
  const child = spawn(process.execPath, [MAIN, '0', '{"minAmountSat":7}']);
  onTestFinished(() => void child.kill('SIGKILL'));
  const [line] = (await once(createInterface(child.stdout), 'line')) as [string];
  const { url, payUrl } = JSON.parse(line) as { url: string; payUrl: string };
  const createUrl = `${url}/v1/mint/quote/bolt11`;

  expect((await postTo(createUrl, { amount: 6, unit: 'sat' })).status).toBe(400);
  const created = await postTo(createUrl, { amount: 21, unit: 'sat' });
  const { quote, request } = (await created.json()) as { quote: string; request: string };
  expect((await postTo(payUrl, { request })).status).toBe(200);
  expect((await postTo(payUrl, { request })).status).toBe(400);
  expect(await (await fetch(`${createUrl}/${quote}`)).json()).toMatchObject({ state: 'PAID' });

  child.kill('SIGTERM');
  expect(await once(child, 'exit')).toEqual([0, null]);
});

function postTo(url: string, body: object): Promise<Response> {
  return fetch(url, { method: 'POST', body: JSON.stringify(body) });
}
