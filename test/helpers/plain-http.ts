import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { expect } from 'vitest';
import { expectDescribed } from './api-description.ts';
import type { ApiAnswer } from './wallet.ts';

/** A request by hand, for what `fetch` adds, forbids or puts right by itself. */
export interface PlainRequest {
  method?: string;
  /** Exactly what is sent, beside `Host` and `Connection`. */
  headers?: Record<string, string>;
  body?: string;
}

/** Sends a request with these headers and no others; the answer must be JSON, and as is described. */
export async function plainRequest(
  base: string,
  path: string,
  { method = 'GET', headers = {}, body = '' }: PlainRequest = {},
): Promise<ApiAnswer> {
  const { hostname, port } = new URL(base);
  const request = httpRequest({ hostname, port, path, method, headers });
  request.end(body);
  const [response] = await once(request, 'response');
  // A server that has answered may hang up while it is still being told more.
  request.on('error', () => undefined);
  const answerText = await text(response);
  const answer = {
    status: response.statusCode,
    headers: new Headers(response.headers),
    body: answerText === '' ? null : JSON.parse(answerText),
  };
  expectDescribed(method, path, answer);
  return answer;
}

/** Sends bytes that need not be HTTP at all; gives the answer as it came, when the server hangs up. */
export async function sendBytes(base: string, bytes: string): Promise<string> {
  const { hostname, port } = new URL(base);
  const socket = connect(Number(port), hostname);
  socket.write(bytes);
  return await text(socket);
}

/** Expects a JSON error of this shape alone, readable by web pages, without internals. */
export function expectError(
  { status, headers, body }: ApiAnswer,
  expected: number,
  error: object,
): void {
  expect({ status, body }).toEqual({ status: expected, body: error });
  expect(headers.get('content-type')).toMatch(/^application\/json/);
  expect(headers.get('access-control-allow-origin')).toBe('*');
  expect(JSON.stringify(body)).not.toMatch(
    /node_modules|\.ts:|\.js:| at |select |insert |FST_|<html/i,
  );
}
