import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { negotiate } from '@fastify/accept-negotiator';
import type { FastifyReply, FastifyRequest } from 'fastify';

/** A file that is in memory once, for all requests. */
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

/** The extensions of image files that {@link createStaticFile} accepts. */
export const IMAGE_EXTENSIONS: readonly string[] = ['svg', 'png', 'webp'];

const compress = promisify(gzip);

/** @param extension without the dot; it determines the content type */
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

/** Sends a file, compressed if the client accepts it. */
export function sendStaticFile(
  file: StaticFile,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  const encoding = chooseEncoding(request);
  reply.headers({
    vary: 'Accept-Encoding',
    'x-content-type-options': 'nosniff',
    ...(encoding === 'gzip' && { 'content-encoding': encoding }),
  });
  return reply.type(file.contentType).send(file[encoding]);
}

/** Returns `gzip` only if the client names it. The first encoding of the list also applies to `*`. */
function chooseEncoding({ headers }: FastifyRequest): 'identity' | 'gzip' {
  const preferred = negotiate(headers['accept-encoding'] ?? '', ['identity', 'gzip']);
  return preferred === 'gzip' ? 'gzip' : 'identity';
}
