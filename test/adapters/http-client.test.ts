import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { createServer, type Socket } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { HttpClient } from '../../src/net/http-client.ts';
import { FETCH_LIMITS } from '../../src/net/limits.ts';
import { flood } from '../helpers/mints/fake-hostile-mint.ts';
import { listenOnLoopback } from '../helpers/network/loopback-server.ts';

const KIBIBYTE = 1024;

const MAX_BODY_BYTES = 256 * KIBIBYTE;

const MAX_FRAMING_BYTES = 64 * KIBIBYTE;

/** What one read of a socket returns. The last one may exceed the limit. */
const MAX_READ_BYTES = 64 * KIBIBYTE;

const CHUNKED_HEAD = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n';
const LAST_CHUNK = '0\r\n\r\n';

/** Memory that each chunk takes in addition to its bytes. It counts as a part of the body. */
const CHUNK_OVERHEAD_BYTES = 256;

describe('HttpClient with hosts that the operator did not name', () => {
  it.each([
    ['a chunk extension', `${CHUNKED_HEAD}1;a=`, 'b'],
    ['the extensions of many chunks', CHUNKED_HEAD, `1;${'a'.repeat(4_000)}\r\n \r\n`],
    ['a chunk size with leading zeros', CHUNKED_HEAD, '0'],
    ['line ends before the status line', '', '\r\n'],
    ['trailers', `${CHUNKED_HEAD}0\r\n`, 'X-More: more\r\n'],
    ['interim responses', '', 'HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n'],
    ['a body', CHUNKED_HEAD, '4\r\nbody\r\n'],
  ])('ends a response with %s without end', async (_case, start, endlessText) => {
    const url = await startHost((connection) => {
      connection.write(start);
      flood(connection, endlessText);
    });
    const sockets = recordClientSockets();
    expect(await sendRequest(createClient(), url)).toEqual({
      outcome: 'unreachable',
      reason: 'response too large',
    });
    expect(sockets[0]?.bytesRead).toBeLessThanOrEqual(
      MAX_BODY_BYTES + MAX_FRAMING_BYTES + MAX_READ_BYTES,
    );
  });

  it('accepts a body of the largest size in small chunks', async () => {
    const chunkBytes = 4 * KIBIBYTE;
    const chunk = `${chunkBytes.toString(16)}\r\n${'a'.repeat(chunkBytes)}\r\n`;
    const chunkCount = Math.floor(MAX_BODY_BYTES / (chunkBytes + 2 * CHUNK_OVERHEAD_BYTES));
    const response = `${CHUNKED_HEAD}${chunk.repeat(chunkCount)}${LAST_CHUNK}`;
    const client = createClient();
    const text = 'a'.repeat(chunkCount * chunkBytes);
    const url = await startHost((connection) => connection.write(response));
    expect(await sendRequest(client, url)).toMatchObject({ outcome: 'responded', text });
  });

  it('accepts a body that ends with the connection', async () => {
    const body = 'a'.repeat(MAX_BODY_BYTES - 16 * KIBIBYTE);
    const url = await startHost((connection) => connection.end(`HTTP/1.1 200 OK\r\n\r\n${body}`));
    expect(await sendRequest(createClient(), url)).toMatchObject({ text: body });
  });

  it('limits the bytes of a request, not those of a connection', async () => {
    const body = 'a'.repeat(MAX_BODY_BYTES / 2);
    const response = `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
    const url = await startHost((connection) => connection.write(response));
    const sockets = recordClientSockets();
    const client = createClient();
    for (let i = 0; i < 10; i += 1) {
      expect(await sendRequest(client, url)).toMatchObject({ text: body });
    }
    // A request that follows a response immediately may use another connection.
    expect(sockets.length).toBeLessThanOrEqual(2);
  });

  it('does not limit what hosts of the operator send besides a body', async () => {
    const hints = 'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(20_000);
    const url = await startHost((connection) =>
      connection.write(`${hints}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}`),
    );
    const client = new HttpClient({ allowPrivateNetworks: true }, FETCH_LIMITS);
    onTestFinished(() => client.close());
    expect(await sendRequest(client, url)).toMatchObject({ json: {} });
  });
});

function createClient(): HttpClient {
  const client = new HttpClient({ allowPrivateNetworks: true }, FETCH_LIMITS, () => {});
  onTestFinished(() => client.close());
  return client;
}

function sendRequest(client: HttpClient, url: string) {
  return client.request({
    url,
    body: null,
    maxBodyBytes: MAX_BODY_BYTES,
    timeoutMs: FETCH_LIMITS.totalTimeoutMs,
  });
}

async function startHost(respond: (connection: Socket) => void): Promise<string> {
  const server = createServer((connection) => {
    connection.on('data', () => respond(connection));
  });
  const { url, close } = await listenOnLoopback(server);
  onTestFinished(close);
  return url;
}

function recordClientSockets(): Socket[] {
  const sockets: Socket[] = [];
  const record = (message: unknown) => sockets.push((message as { socket: Socket }).socket);
  subscribe('net.client.socket', record);
  onTestFinished(() => void unsubscribe('net.client.socket', record));
  return sockets;
}
