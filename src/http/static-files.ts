import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { negotiate } from '@fastify/accept-negotiator';
import type { FastifyReply, FastifyRequest } from 'fastify';

export interface StaticFile {
  contentType: string;
  content: Buffer;
  gzippedContent: Buffer;
}

const CONTENT_TYPES: Record<string, string> = {
  css: 'text/css; charset=utf-8',
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  json: 'application/json; charset=utf-8',
  png: 'image/png',
  svg: 'image/svg+xml',
  txt: 'text/plain; charset=utf-8',
  webmanifest: 'application/manifest+json',
  webp: 'image/webp',
};

export const IMAGE_EXTENSIONS: readonly string[] = ['svg', 'png', 'webp'];

export async function createStaticFile(
  content: string | Uint8Array,
  extension: string,
): Promise<StaticFile> {
  const contentType = CONTENT_TYPES[extension];
  if (contentType === undefined) {
    throw new Error(`files with the extension '${extension}' cannot be served`);
  }
  const buffer = Buffer.from(content);
  return { contentType, content: buffer, gzippedContent: await promisify(gzip)(buffer) };
}

export function sendStaticFile(
  file: StaticFile,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  reply.headers({ vary: 'Accept-Encoding', 'x-content-type-options': 'nosniff' });
  reply.type(file.contentType);
  if (acceptsGzip(request)) {
    return reply.header('content-encoding', 'gzip').send(file.gzippedContent);
  }
  return reply.send(file.content);
}

export function acceptsGzip({ headers }: FastifyRequest): boolean {
  // `identity` (uncompressed) comes first, because a client that accepts any encoding (`*`) gets the first one.
  return negotiate(headers['accept-encoding'] ?? '', ['identity', 'gzip']) === 'gzip';
}
