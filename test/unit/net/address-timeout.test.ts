import dns from 'node:dns';
import { once } from 'node:events';
import { type AddressInfo, connect } from 'node:net';
import { Worker } from 'node:worker_threads';
import pg from 'pg';
import { expect, it, onTestFinished, vi } from 'vitest';
import { createClientConfig } from '../../../src/database/postgres.ts';
import { GuardedFetch } from '../../../src/net/guarded-fetch.ts';
import { createGuardedWebSocketConnector } from '../../../src/net/guarded-websocket.ts';

/** Has an IPv4 and an IPv6 address; the server listens only at the IPv4 address. */
const HOST = 'two-addresses.example';
const WORKER_URL = new URL('../../helpers/network/congested-server-worker.ts', import.meta.url);

it.each<[string, (host: string) => Promise<string>, string]>([
  ['a mint', requestOverHttp, 'responded'],
  ['a WebSocket', openWebSocket, 'status 200'],
  ['PostgreSQL', connectToPostgres, 'wrong password'],
])(
  'a connection to %s survives a lost packet if another address is unreachable',
  async (_case, open, expected) => {
    const { port, endCongestion } = await startCongestedServer();
    resolveToTwoAddresses(endCongestion);
    expect(await open(`${HOST}:${port}`)).toBe(expected);
  },
);

async function requestOverHttp(host: string): Promise<string> {
  const fetch = new GuardedFetch({ allowPrivateNetworks: true });
  onTestFinished(() => fetch.close());
  return (await fetch.request({ url: `http://${host}/` })).outcome;
}

async function openWebSocket(host: string): Promise<string> {
  const socket = createGuardedWebSocketConnector({ allowPrivateNetworks: true })(`ws://${host}/`);
  const [{ status }] = await once(socket, 'close');
  return `status ${status}`;
}

async function connectToPostgres(host: string): Promise<string> {
  const client = new pg.Client(createClientConfig(`postgres://user@${host}/database`));
  return await client.connect().then(
    () => 'connected',
    ({ message }: Error) => message,
  );
}

/** @param onFirstPacket called after the first packet of the connection was sent */
function resolveToTwoAddresses(onFirstPacket: () => void): void {
  const addresses = [
    { address: '127.0.0.1', family: 4 },
    { address: '::1', family: 6 },
  ];
  const lookup = (_host: string, _options: object, callback: CallableFunction) => {
    process.nextTick(() => {
      callback(null, addresses);
      setImmediate(onFirstPacket);
    });
  };
  vi.spyOn(dns, 'lookup').mockImplementation(lookup as never);
}

/** Starts a server whose queue is full, so that the system drops the first packet of further connections. */
async function startCongestedServer() {
  const isUncongested = new Int32Array(new SharedArrayBuffer(4));
  const endCongestion = () => {
    Atomics.store(isUncongested, 0, 1);
    Atomics.notify(isUncongested, 0);
  };
  const worker = new Worker(WORKER_URL, { workerData: isUncongested });
  onTestFinished(async () => {
    endCongestion();
    vi.restoreAllMocks();
    await worker.terminate();
  });
  const [{ port }] = (await once(worker, 'message')) as [AddressInfo];
  // With a queue of one, Linux completes two connections.
  for (let i = 0; i < 2; i += 1) {
    const filler = connect(port, '127.0.0.1');
    onTestFinished(() => void filler.destroy());
    filler.on('error', () => undefined);
    await once(filler, 'connect');
  }
  return { port, endCongestion };
}
