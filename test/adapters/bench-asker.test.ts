import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, it } from 'vitest';
import { NodeProcess } from '../../bench/harness/node-process.ts';
import type { AskerPlan, AskerResult } from '../../bench/processes/asker.ts';

it('asks when it is time to, answered or not, and tells how long each answer took', async () => {
  const asked = new Set<string>();
  const waiting: (() => void)[] = [];

  const { latenciesMs, askedForSeconds, right, wrong, firstWrong } = await ask(
    (request, response) => {
      asked.add(`${request.method} ${request.url} ${request.headers['content-length'] ?? ''}`);
      waiting.push(() => response.end('an invoice'));
      // Nobody is answered before all have asked.
      if (waiting.length === 10) {
        for (const answer of waiting.splice(0)) {
          answer();
        }
      }
    },
  );

  expect(asked).toEqual(new Set(['GET /1 ', 'POST /2 13']));
  expect({ answers: latenciesMs.length, right, wrong, firstWrong }).toEqual({
    answers: 10,
    right: 10,
    wrong: 0,
    firstWrong: null,
  });
  expect(Math.min(...latenciesMs)).toBeGreaterThan(0);
  // The tenth is due after nine tenths of the second.
  expect(askedForSeconds).toBeGreaterThan(0.85);
});

it('counts the answers of its warm-up, and takes no time of them', async () => {
  const { latenciesMs, right, wrong } = await ask((_, response) => response.end('an invoice'), {
    warmUpSeconds: 1,
  });

  expect({ answers: latenciesMs.length, right, wrong }).toEqual({
    answers: 10,
    right: 20,
    wrong: 0,
  });
});

it('takes another answer, and none, for what is wrong', async () => {
  let answers = 0;
  const { latenciesMs, wrong, firstWrong } = await ask((_, response) => {
    answers += 1;
    if (answers % 2 === 0) {
      response.end('no invoice today');
    } else {
      response.socket?.resetAndDestroy();
    }
  });

  expect({ latenciesMs, wrong }).toEqual({ latenciesMs: [], wrong: 10 });
  expect(firstWrong).toEqual(expect.any(String));
});

it('asks what comes before a question first, and looks at that answer too', async () => {
  const asked: string[] = [];

  const { latenciesMs, wrong } = await ask(
    ({ url = '' }, response) => {
      asked.push(url);
      // Of ten questions five have one before them.
      const isWrong = url === '/before' && asked.filter((each) => each === url).length === 1;
      response.end(isWrong ? 'nothing' : 'an invoice');
    },
    { before: '/before' },
  );

  expect(asked.filter((url) => url === '/before')).toHaveLength(5);
  expect(asked.filter((url) => url === '/1')).toHaveLength(4);
  expect({ answers: latenciesMs.length, wrong }).toEqual({ answers: 9, wrong: 1 });
});

/**
 * @param options.before the path of what is asked before each question to `/1`
 * @param options.warmUpSeconds none by default
 */
async function ask(
  listener: RequestListener,
  options: { before?: string; warmUpSeconds?: number } = {},
): Promise<AskerResult> {
  await using server = createServer(listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const input: AskerPlan = {
    requests: [
      {
        url: `${url}/1`,
        expect: 'an invoice',
        ...(options.before !== undefined && {
          before: { url: url + options.before, expect: 'an invoice' },
        }),
      },
      { url: `${url}/2`, expect: 'an invoice', body: { amount: 21 } },
    ],
    warmUp: { perSecond: 10, seconds: options.warmUpSeconds ?? 0 },
    measured: { perSecond: 10, seconds: 1 },
  };
  const program = import.meta.resolve('../../bench/processes/asker.ts');
  await using asker = new NodeProcess('who asks', program, { input });
  expect(await asker.next()).toBe('warm');
  const result = await asker.next<AskerResult>();
  server.closeAllConnections();
  return result;
}
