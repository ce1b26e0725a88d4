import type { FastifyInstance } from 'fastify';

/**
 * Reads every body as JSON, whatever a client calls it, and keeps its bytes: a NIP-98 event may
 * have signed their hash.
 */
export function keepBodyBytes(app: FastifyInstance): void {
  app.decorateRequest('rawBody', null);
  const parseJson = app.getDefaultJsonParser('error', 'error');
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (request, body, done) => {
    request.rawBody = Buffer.from(body);
    void parseJson(request, request.rawBody.toString('utf8'), done);
  });
}
