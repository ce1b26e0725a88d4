import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { expect } from 'vitest';
import { assertMatchesOpenApi } from './openapi-validator.ts';
import type { ApiResponse } from './test-wallet.ts';

/** A raw request, for headers and targets that `fetch` adds, forbids or normalises. */
export interface RawRequest {
  method?: string;
  /** The exact headers, in addition to `Host` and `Connection`. */
  headers?: Record<string, string>;
  body?: string;
}

/** Sends a request with exactly these headers; the response must be JSON and match the OpenAPI document. */
export async function sendRawRequest(
  base: string,
  path: string,
  { method = 'GET', headers = {}, body = '' }: RawRequest = {},
): Promise<ApiResponse> {
  const { hostname, port } = new URL(base);
  const request = httpRequest({ hostname, port, path, method, headers });
  request.end(body);
  const [response] = await once(request, 'response');
  // A server that has responded may disconnect while the client is still sending.
  request.on('error', () => undefined);
  const responseText = await text(response);
  const apiResponse = {
    status: response.statusCode,
    headers: new Headers(response.headers),
    body: responseText === '' ? null : JSON.parse(responseText),
  };
  assertMatchesOpenApi(method, path, apiResponse);
  return apiResponse;
}

/** Sends raw bytes and returns the raw response when the server disconnects. */
export async function sendRawBytes(base: string, bytes: string): Promise<string> {
  const { hostname, port } = new URL(base);
  const socket = connect(Number(port), hostname);
  socket.write(bytes);
  return await text(socket);
}

/** Expects a JSON error of this shape alone, readable by web pages, without internals. */
export function expectErrorResponse(
  { status, headers, body }: ApiResponse,
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
