import { createSocket } from 'node:dgram';
import type { LookupAddress } from 'node:dns';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { NAME_SERVERS_SILENT, nameResolver } from '../../src/net/resolve-names.ts';
import { unreachableReason } from '../../src/net/unreachable-reason.ts';
import {
  type DnsAnswer,
  type DnsQuestionType,
  type DnsServer,
  startDnsServer,
} from '../helpers/dns-server.ts';

const V4: LookupAddress = { address: '93.184.216.34', family: 4 };
const V6: LookupAddress = { address: '2606:4700::1111', family: 6 };

/** Much less than a question that nobody answers takes, and much more than one that somebody does. */
const SOON_MS = 900;

/** What finding an address in the whole tree of names may take: longer than one try. */
const SLOW_MS = 1_200;

const cleanups: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  await Promise.all(cleanups.splice(0).map((cleanup) => cleanup()));
});

describe('the addresses of a name', () => {
  it('are those of both kinds, the old kind first', async () => {
    const server = await knowingAll();
    expect(await found(nameResolver([server.address]), 'mint.example')).toEqual([V4, V6]);
  });

  it.each([
    ['AAAA', V4],
    ['A', V6],
  ] as const)('are there soon where questions for %s are dropped', async (dropped, expected) => {
    const server = await startDnsServer((_name, type) =>
      type === dropped ? 'silence' : recordsOf(type),
    );
    cleanups.push(() => server.close());
    const resolve = nameResolver([server.address]);
    const begunAt = performance.now();
    expect(await found(resolve, 'mint.example')).toEqual([expected]);
    // Nor does the question that is left to itself hold up another.
    expect(await found(resolve, 'other.example')).toEqual([expected]);
    expect(performance.now() - begunAt).toBeLessThan(SOON_MS);
  });

  it('are there in time where the first name server is dead, and soon after that', async () => {
    const server = await knowingAll();
    const resolve = nameResolver([await deadServer(), server.address]);
    expect(await found(resolve, 'mint.example')).toEqual([V4, V6]);
    const begunAt = performance.now();
    for (const name of ['a.example', 'b.example', 'c.example', 'd.example']) {
      expect(await found(resolve, name)).toEqual([V4, V6]);
    }
    expect(performance.now() - begunAt).toBeLessThan(SOON_MS);
  });

  it('are found though they take their time at a name server that is quick otherwise', async () => {
    // It looks for a name once, however often it is asked meanwhile.
    let search: Promise<void> | undefined;
    const server = await startDnsServer(async (name, type) => {
      if (name === 'slow.example') {
        search ??= delay(SLOW_MS);
        await search;
      }
      return recordsOf(type);
    });
    cleanups.push(() => server.close());
    const resolve = nameResolver([server.address]);
    for (let time = 0; time < 5; time += 1) {
      await found(resolve, 'quick.example');
    }
    expect(await found(resolve, 'slow.example')).toEqual([V4, V6]);
  });
});

describe('a name without an address', () => {
  it('is told from name servers that do not answer', async () => {
    const server = await startDnsServer((name, type) => {
      if (name.startsWith('failing')) {
        return 'server failure';
      }
      if (name.startsWith('half')) {
        return type === 'A' ? [] : 'server failure';
      }
      return [];
    });
    cleanups.push(() => server.close());
    const resolve = nameResolver([server.address]);
    expect(await reasonFor(resolve, 'nobody.example')).toBe('name not found');
    expect(await reasonFor(resolve, `${'x'.repeat(70)}.example`)).toBe('name not found');
    expect(await reasonFor(resolve, 'failing.example')).toBe('name servers do not answer');
    expect(await reasonFor(resolve, 'half.example')).toBe('name servers do not answer');
    const toNobody = nameResolver([await deadServer()]);
    expect(await reasonFor(toNobody, 'mint.example')).toBe('name servers do not answer');
    const refused = nameResolver(['127.0.0.1:9']);
    await expect(found(refused, 'mint.example')).rejects.toMatchObject({
      code: NAME_SERVERS_SILENT,
    });
  });
});

/** A name server that knows every name. */
async function knowingAll(): Promise<DnsServer> {
  const server = await startDnsServer((_name, type) => recordsOf(type));
  cleanups.push(() => server.close());
  return server;
}

/** One that takes questions and says nothing. */
async function deadServer(): Promise<string> {
  const socket = createSocket('udp4').bind(0, '127.0.0.1');
  await once(socket, 'listening');
  cleanups.push(async () => socket.close());
  return `127.0.0.1:${socket.address().port}`;
}

function recordsOf(type: DnsQuestionType): DnsAnswer {
  return [{ type, address: type === 'A' ? V4.address : V6.address }];
}

function found(resolve: ReturnType<typeof nameResolver>, name: string): Promise<LookupAddress[]> {
  return new Promise((fulfil, reject) => {
    resolve(name, { all: true }, (error, addresses) => (error ? reject(error) : fulfil(addresses)));
  });
}

async function reasonFor(resolve: ReturnType<typeof nameResolver>, name: string): Promise<string> {
  return found(resolve, name).then(
    () => 'found',
    (error: unknown) => unreachableReason(error),
  );
}
