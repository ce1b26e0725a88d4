import type { FastifyInstance } from 'fastify';

/**
 * Reads every body as JSON, whatever a client calls it, and keeps its bytes: a NIP-98 event may
 * have signed their hash.
 */
export function keepBodyBytes(app: FastifyInstance): void {
  app.decorateRequest('rawBody', null);
  // What would change an object's prototype is left out; a schema names the fields that are read.
  const parseJson = app.getDefaultJsonParser('remove', 'remove');
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (request, body, done) => {
    request.rawBody = Buffer.from(body);
    void parseJson(request, request.rawBody.toString('utf8'), done);
  });
}
