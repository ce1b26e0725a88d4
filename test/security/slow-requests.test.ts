import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { expect, it } from 'vitest';
import { useTestEnvironment } from '../helpers/service/test-environment.ts';

const BYTE_INTERVAL_MS = 500;

/** Node checks for timeouts every five seconds. The rest is for a busy machine. */
const MAX_EXTRA_SECONDS = 10;

const environment = useTestEnvironment();

it.concurrent.each([
  ['headers', 10, 'GET / HTTP/1.1\r\nHost: x\r\nX-Slow: '],
  [
    'body',
    30,
    'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 30000\r\n' +
      'Content-Type: application/x-www-form-urlencoded\r\n\r\nrecipient=',
  ],
])('ends a request with slow %s after %i s', async (_case, timeoutSeconds, start) => {
  const { hostname, port } = new URL(environment.service.url);
  const connection = connect(Number(port), hostname);
  const startedAtMs = performance.now();
  connection.write(start);
  const timer = setInterval(() => connection.write('a'), BYTE_INTERVAL_MS);
  const response = await text(connection);
  clearInterval(timer);
  expect(response).toMatch(/^HTTP\/1\.1 408 /);
  expect(response).toContain('The request took too long to arrive.');
  const durationSeconds = (performance.now() - startedAtMs) / 1_000;
  expect(durationSeconds).toBeLessThan(timeoutSeconds + MAX_EXTRA_SECONDS);
});
