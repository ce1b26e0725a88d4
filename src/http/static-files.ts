import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { negotiate } from '@fastify/accept-negotiator';
import type { FastifyReply, FastifyRequest } from 'fastify';

export interface StaticFile {
  contentType: string;
  identity: Buffer;
  gzip: Buffer;
}

const CONTENT_TYPES: Record<string, string> = {
  css: 'text/css; charset=utf-8',
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  json: 'application/json; charset=utf-8',
  png: 'image/png',
  svg: 'image/svg+xml',
  webp: 'image/webp',
};

export const IMAGE_EXTENSIONS: readonly string[] = ['svg', 'png', 'webp'];

const compress = promisify(gzip);

export async function createStaticFile(
  content: string | Uint8Array,
  extension: string,
): Promise<StaticFile> {
  const contentType = CONTENT_TYPES[extension];
  if (contentType === undefined) {
    throw new Error(`files with the extension '${extension}' cannot be served`);
  }
  const identity = Buffer.from(content);
  return { contentType, identity, gzip: await compress(identity) };
}

export function sendStaticFile(
  file: StaticFile,
  { headers }: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  // `gzip` only if the client names it: the first encoding of the list also applies to `*`.
  const encoding = negotiate(headers['accept-encoding'] ?? '', ['identity', 'gzip']);
  reply.headers({ vary: 'Accept-Encoding', 'x-content-type-options': 'nosniff' });
  if (encoding === 'gzip') {
    reply.header('content-encoding', encoding);
  }
  return reply.type(file.contentType).send(encoding === 'gzip' ? file.gzip : file.identity);
}
