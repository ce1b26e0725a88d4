import { createSocket } from 'node:dgram';
import type { LookupAddress } from 'node:dns';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { createDnsResolver } from '../../src/net/dns-resolver.ts';
import { toUnreachableReason } from '../../src/net/unreachable-reason.ts';
import {
  type DnsAnswer,
  type DnsQuestionType,
  type DnsServer,
  startDnsServer,
} from '../helpers/dns-server.ts';

const V4: LookupAddress = { address: '93.184.216.34', family: 4 };
const V6: LookupAddress = { address: '2606:4700::1111', family: 6 };

/** Longer than a successful query, shorter than a timeout. */
const QUICK_MS = 900;

/** Longer than the timeout of one attempt. */
const SLOW_MS = 1_200;

const cleanups: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  await Promise.all(cleanups.splice(0).map((cleanup) => cleanup()));
});

describe('DnsResolver', () => {
  it('returns the addresses of both families, IPv4 first', async () => {
    const server = await knowingAll();
    expect(await found(createDnsResolver([server.address]), 'mint.example')).toEqual([V4, V6]);
  });

  it.each([
    ['AAAA', V4],
    ['A', V6],
  ] as const)(
    'returns the addresses quickly if queries for %s are dropped',
    async (dropped, expected) => {
      const server = await startDnsServer((_name, type) =>
        type === dropped ? 'silence' : recordsOf(type),
      );
      cleanups.push(() => server.close());
      const resolve = createDnsResolver([server.address]);
      const begunAt = performance.now();
      expect(await found(resolve, 'mint.example')).toEqual([expected]);
      // A query without a response does not delay the next one.
      expect(await found(resolve, 'other.example')).toEqual([expected]);
      expect(performance.now() - begunAt).toBeLessThan(QUICK_MS);
    },
  );

  it('skips a dead name server and does not wait for it again', async () => {
    const server = await knowingAll();
    const resolve = createDnsResolver([await deadServer(), server.address]);
    expect(await found(resolve, 'mint.example')).toEqual([V4, V6]);
    const begunAt = performance.now();
    for (const name of ['a.example', 'b.example', 'c.example', 'd.example']) {
      expect(await found(resolve, name)).toEqual([V4, V6]);
    }
    expect(performance.now() - begunAt).toBeLessThan(QUICK_MS);
  });

  it('returns addresses if one query to a fast name server is slow', async () => {
    let search: Promise<void> | undefined;
    const server = await startDnsServer(async (name, type) => {
      if (name === 'slow.example') {
        search ??= delay(SLOW_MS);
        await search;
      }
      return recordsOf(type);
    });
    cleanups.push(() => server.close());
    const resolve = createDnsResolver([server.address]);
    for (let time = 0; time < 5; time += 1) {
      await found(resolve, 'quick.example');
    }
    expect(await found(resolve, 'slow.example')).toEqual([V4, V6]);
  });
});

it.each([
  ['nobody.example', 'name not found'],
  [`${'x'.repeat(70)}.example`, 'name not found'],
  ['failing.example', 'name servers do not answer'],
  ['half.example', 'name servers do not answer'],
])('reports the failure for %s as "%s"', async (name, reason) => {
  const server = await startDnsServer((asked, type) =>
    asked.startsWith('failing') || (asked.startsWith('half') && type === 'AAAA')
      ? 'server failure'
      : [],
  );
  cleanups.push(() => server.close());
  expect(await reasonFor(createDnsResolver([server.address]), name)).toBe(reason);
});

it('reports unresponsive and closed name servers', async () => {
  for (const address of [await deadServer(), '127.0.0.1:9']) {
    const reason = await reasonFor(createDnsResolver([address]), 'mint.example');
    expect(reason).toBe('name servers do not answer');
  }
});

async function knowingAll(): Promise<DnsServer> {
  const server = await startDnsServer((_name, type) => recordsOf(type));
  cleanups.push(() => server.close());
  return server;
}

/** Opens a UDP port that never responds. */
async function deadServer(): Promise<string> {
  const socket = createSocket('udp4').bind(0, '127.0.0.1');
  await once(socket, 'listening');
  cleanups.push(async () => socket.close());
  return `127.0.0.1:${socket.address().port}`;
}

function recordsOf(type: DnsQuestionType): DnsAnswer {
  return [{ type, address: type === 'A' ? V4.address : V6.address }];
}

function found(
  resolve: ReturnType<typeof createDnsResolver>,
  name: string,
): Promise<LookupAddress[]> {
  return new Promise((fulfil, reject) => {
    resolve(name, { all: true }, (error, addresses) => (error ? reject(error) : fulfil(addresses)));
  });
}

async function reasonFor(
  resolve: ReturnType<typeof createDnsResolver>,
  name: string,
): Promise<string> {
  return found(resolve, name).then(
    () => 'found',
    (error: unknown) => toUnreachableReason(error),
  );
}
