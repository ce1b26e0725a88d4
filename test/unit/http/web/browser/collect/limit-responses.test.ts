import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pipeline, Readable } from 'node:stream';
import { expect, it, onTestFinished } from 'vitest';
import '../../../../../../src/http/web/browser/collect/limit-responses.ts';

function* generateEndlessly() {
  for (;;) {
    yield Buffer.alloc(65_536, '[');
  }
}

it('stops reading a response without end', async () => {
  const { promise: closed, resolve } = Promise.withResolvers<void>();
  const server = createServer((_request, reply) =>
    pipeline(Readable.from(generateEndlessly()), reply, () => resolve()),
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const response = await fetch(`http://127.0.0.1:${port}/`);
  await expect(response.json()).rejects.toThrow('The response is too long.');
  await closed;
});
