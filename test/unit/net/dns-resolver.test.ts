import { createSocket } from 'node:dgram';
import type { LookupAddress } from 'node:dns';
import { once } from 'node:events';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createDnsResolver, type ResolveHostname } from '../../../src/net/dns-resolver.ts';
import { toFailureReason } from '../../../src/net/request-failure.ts';
import {
  type DnsAnswer,
  type DnsQuestionType,
  startFakeDnsServer,
} from '../../helpers/network/fake-dns-server.ts';

const IPV4_ADDRESS: LookupAddress = { address: '93.184.216.34', family: 4 };
const IPV6_ADDRESS: LookupAddress = { address: '2606:4700::1111', family: 6 };

/** More than several lookups take, even on a busy machine. Less than four queries of a second that time out. */
const MAX_QUICK_LOOKUPS_MS = 3_500;

const CLOSED_PORT = '127.0.0.1:9';

describe('createDnsResolver', () => {
  it.each([
    ['AAAA', IPV4_ADDRESS],
    ['A', IPV6_ADDRESS],
  ] as const)(
    'returns addresses quickly if the name server drops %s queries',
    async (droppedType, expected) => {
      const server = await startFakeDnsServer((_name, type) =>
        type === droppedType ? 'silence' : recordsFor(type),
      );
      onTestFinished(() => server.close());
      const resolve = createDnsResolver([server.address]);
      const startedAt = performance.now();
      expect(await resolve('mint.example')).toEqual([expected]);
      // The query without a response does not delay the lookup of the next name.
      expect(await resolve('other.example')).toEqual([expected]);
      expect(performance.now() - startedAt).toBeLessThan(MAX_QUICK_LOOKUPS_MS);
    },
  );

  it('waits only once for an unresponsive name server', async () => {
    const server = await startFakeDnsServer((_name, type) => recordsFor(type));
    onTestFinished(() => server.close());
    const resolve = createDnsResolver([await openUnresponsivePort(), server.address]);
    expect(await resolve('mint.example')).toEqual([IPV4_ADDRESS, IPV6_ADDRESS]);
    const startedAt = performance.now();
    for (const name of ['a.example', 'b.example', 'c.example', 'd.example']) {
      expect(await resolve(name)).toEqual([IPV4_ADDRESS, IPV6_ADDRESS]);
    }
    expect(performance.now() - startedAt).toBeLessThan(MAX_QUICK_LOOKUPS_MS);
  });

  it.each([
    ['name not found', 'a name without records', 'absent.example'],
    ['name servers do not answer', 'a name whose queries fail', 'failing.example'],
    ['name servers do not answer', 'a name whose AAAA query fails', 'aaaa-failing.example'],
  ])('reports "%s" for %s', async (reason, _case, name) => {
    const server = await startFakeDnsServer((queriedName, type) =>
      queriedName === 'failing.example' ||
      (queriedName === 'aaaa-failing.example' && type === 'AAAA')
        ? 'server failure'
        : [],
    );
    onTestFinished(() => server.close());
    expect(await lookUpFailureReason(createDnsResolver([server.address]), name)).toBe(reason);
  });

  it('reports "name servers do not answer" for unresponsive and closed ports', async () => {
    for (const address of [await openUnresponsivePort(), CLOSED_PORT]) {
      const reason = await lookUpFailureReason(createDnsResolver([address]), 'mint.example');
      expect(reason).toBe('name servers do not answer');
    }
  });
});

async function openUnresponsivePort(): Promise<string> {
  const socket = createSocket('udp4').bind(0, '127.0.0.1');
  await once(socket, 'listening');
  onTestFinished(() => void socket.close());
  return `127.0.0.1:${socket.address().port}`;
}

function recordsFor(type: DnsQuestionType): DnsAnswer {
  return [{ type, address: type === 'A' ? IPV4_ADDRESS.address : IPV6_ADDRESS.address }];
}

async function lookUpFailureReason(resolve: ResolveHostname, name: string): Promise<string> {
  return resolve(name).then(
    () => 'no failure',
    (error: unknown) => toFailureReason(error),
  );
}
