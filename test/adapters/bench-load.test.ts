import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, it } from 'vitest';
import { NodeProcess } from '../../bench/harness/node-process.ts';
import { type LoadPlan, type LoadResult, TURN } from '../../bench/processes/load-plan.ts';

const EXPECTED = '"tag":"payRequest"';
const RIGHT = `{${EXPECTED},"metadata":"${'long '.repeat(20_000)}"}`;

/** Long enough that no pause of the machine is taken for a connection that got stuck. */
const UNHURRIED_SECONDS = 2;

it.each([
  ['asks', false],
  ['asks, without sleeping,', true],
])(
  '%s each of its requests, with its headers, and counts the right answers',
  async (_, staysAwake) => {
    const asked = new Set<string>();

    const listener: RequestListener = (request, response) => {
      asked.add(`${request.url} ${request.headers['authorization']}`);
      // In pieces, as longer answers come.
      response.setHeader('Content-Length', RIGHT.length);
      response.write(RIGHT.slice(0, 100));
      setImmediate(() => response.end(RIGHT.slice(100)));
    };
    const { right, wrong, firstWrong, busy } = await load(listener, {
      seconds: UNHURRIED_SECONDS,
      staysAwake,
    });

    expect(asked).toEqual(new Set(['/1 one', '/2 two', '/3 three']));
    expect(right).toBeGreaterThan(0);
    expect({ wrong, firstWrong }).toEqual({ wrong: 0, firstWrong: null });
    expect(busy).toBeGreaterThan(0.05);
  },
);

it('is not busy while it waits for an answer', async () => {
  for (const staysAwake of [false, true]) {
    const { busy } = await load(() => undefined, { staysAwake });

    expect(busy).toBeLessThan(0.2);
  }
});

it.each<[string, RequestListener]>([
  ['another status', (_, response) => response.writeHead(500).end(RIGHT)],
  ['another body', (_, response) => response.end('{"status":"ERROR"}')],
  ['a connection that ends', (_, response) => response.socket?.end()],
  ['a connection that breaks', (_, response) => response.socket?.resetAndDestroy()],
  ['silence', () => undefined],
])('takes %s for no answer', async (_, listener) => {
  const { right, wrong, firstWrong } = await load(listener);

  expect(right).toBe(0);
  expect(wrong).toBeGreaterThan(0);
  expect(firstWrong).toEqual(expect.any(String));
});

it('rests between turns, goes on in the next, and counts all answers and those of each', async () => {
  let asked = 0;
  let answered = 0;
  await using server = createServer((_, response) => {
    asked += 1;
    response.end(RIGHT, () => {
      answered += 1;
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  await using generator = startLoad(server, { seconds: 0.2, staysAwake: true });
  await generator.next();
  const counts: number[] = [];
  const results: LoadResult[] = [];
  for (let turn = 0; turn < 3; turn += 1) {
    // What it asked before it answers this has come.
    await generator.cpuMs();
    await expect.poll(() => asked - answered).toBe(0);
    counts.push(asked);
    await generator.cpuMs();
    expect(asked).toBe(counts.at(-1));
    generator.tell(TURN);
    results.push(await generator.next<LoadResult>());
  }
  expect(counts).toEqual([...new Set(counts)].sort((a, b) => a - b));
  const inAll = results.map(({ rightInAll }) => rightInAll);
  expect(inAll).toEqual([...counts.slice(1), asked]);
  const before = results.map(({ right, rightInAll }) => rightInAll - right);
  expect(before.slice(1)).toEqual(inAll.slice(0, -1));
  expect(Math.min(...results.map(({ right }) => right))).toBeGreaterThan(0);
});

async function load(
  listener: RequestListener,
  options: { seconds?: number; staysAwake?: boolean } = {},
): Promise<LoadResult> {
  await using server = createServer(listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  await using generator = startLoad(server, options);
  expect(await generator.next()).toBe('warm');
  generator.tell(TURN);
  const result = await generator.next<LoadResult>();
  server.closeAllConnections();
  return result;
}

function startLoad(
  server: Server,
  { seconds = 0.5, staysAwake = false }: { seconds?: number; staysAwake?: boolean },
): NodeProcess {
  const input: LoadPlan = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    connections: 2,
    requests: [
      { path: '/1', headers: { authorization: 'one' }, expect: EXPECTED },
      { path: '/2', headers: { authorization: 'two' }, expect: EXPECTED },
      { path: '/3', headers: { authorization: 'three' }, expect: `{${EXPECTED}` },
    ],
    staysAwake,
    warmUpSeconds: 0.2,
    seconds,
  };
  const program = import.meta.resolve('../../bench/processes/load-generator.ts');
  return new NodeProcess('the load generator', program, { input });
}
