import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { expect } from 'vitest';
import type { ApiResponse } from '../recipients/recipient-client.ts';
import { assertMatchesOpenApi } from '../service/openapi-validator.ts';

export interface RawRequest {
  method?: string;
  /** Sent unchanged, in addition to `Host` and `Connection`. */
  headers?: Record<string, string>;
  body?: string;
}

export async function sendRawRequest(
  origin: string,
  path: string,
  { method = 'GET', headers = {}, body = '' }: RawRequest = {},
): Promise<ApiResponse> {
  const { hostname, port } = new URL(origin);
  const request = httpRequest({ hostname, port, path, method, headers });
  request.end(body);
  const [response] = await once(request, 'response');
  // The server may respond and disconnect while the client is still sending the body.
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

export async function sendRawBytes(origin: string, request: string): Promise<string> {
  const { hostname, port } = new URL(origin);
  const socket = connect(Number(port), hostname);
  socket.write(request);
  return await text(socket);
}

/** Expects exactly this JSON error, without internal details. Web pages of other origins must be able to read it. */
export function expectErrorResponse(
  { status, headers, body }: ApiResponse,
  expectedStatus: number,
  expectedBody: object,
): void {
  expect({ status, body }).toEqual({ status: expectedStatus, body: expectedBody });
  expect(headers.get('content-type')).toMatch(/^application\/json/);
  expect(headers.get('access-control-allow-origin')).toBe('*');
  expect(JSON.stringify(body)).not.toMatch(
    /node_modules|\.ts:|\.js:| at |select |insert |FST_|<html/i,
  );
}
