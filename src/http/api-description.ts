import swagger from '@fastify/swagger';
import type { FastifyInstance, RouteOptions } from 'fastify';
import {
  createJsonSchemaTransform,
  createJsonSchemaTransformObject,
} from 'fastify-type-provider-zod';

/** What a wallet's developer has to know beside the endpoints, in Markdown. */
const API_OVERVIEW = unwrapped(`
A Lightning address for every Nostr key. Each payment is a Cashu mint quote, which the wallet of whoever was
paid mints with the mint itself.

- Times are Unix seconds, amounts sats, both always whole numbers; LNURL alone counts millisatoshis. What
  there is not is absent, never null. There may be more fields tomorrow: pass over what you do not know.
- The url that a NIP-98 event signs is the public origin that you call, and the path without its query.
- Any web page may call this API: every answer has \`Access-Control-Allow-Origin: *\`.
- A path that nobody serves, and a method that a path does not have, is a 404. A request that is not even
  HTTP is a 400, and one that takes too long to arrive a 408; the connection is closed then.
- Whoever asks too often is told by 429 and \`Retry-After\` when to ask again.
- Every answer has an \`X-Request-Id\`, but those to what is no valid HTTP or no valid WebSocket handshake. By it
  the operator finds in his log what was answered with 500.

The way of a payment: a payer's wallet reads \`/.well-known/lnurlp/{user}\`, asks it for an invoice and pays that.
The payment appears in \`/api/v2/wallet/quotes\`, and the wallets of whoever was paid are told on
\`/api/v2/ws/quote\`. They mint each quote at its \`mintUrl\`, keep the proofs, and remember the quote as done.
`);

/** How a request is authenticated (spec.md section 5). */
const SECURITY_SCHEMES = {
  nostr: {
    type: 'http',
    scheme: 'Nostr',
    description:
      '`Authorization: Nostr <event>`: a NIP-98 event in base64, signed for this url without its query ' +
      'and for this method.',
  },
  bearer: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: '`Authorization: Bearer <token>`: a token of `GET /api/v2/auth/nip98`.',
  },
} as const;

/** Objects may get more fields in a later version. */
const zodToJsonConfig = {
  override: ({ jsonSchema }: { jsonSchema: { additionalProperties?: unknown } }) => {
    if (jsonSchema.additionalProperties === false) {
      delete jsonSchema.additionalProperties;
    }
  },
};

const describeRoute = createJsonSchemaTransform({ zodToJsonConfig });
const addComponents = createJsonSchemaTransformObject({ zodToJsonConfig });

/**
 * Describes the API (OpenAPI 3.1) by the schemas of the routes that have an `operationId`. Call it before any route is
 * registered.
 */
export async function describeApi(app: FastifyInstance): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.1',
      info: { title: 'nutpost', version: '2', description: API_OVERVIEW },
      tags: [
        { name: 'Payers', description: 'For whoever pays: LNURL and NIP-05.' },
        { name: 'Wallets', description: 'For the wallets of those who are paid.' },
      ],
      components: { securitySchemes: SECURITY_SCHEMES },
    },
    convertConstToEnum: false,
    transform: (route) =>
      route.schema?.operationId === undefined
        ? { schema: { hide: true }, url: route.url }
        : describeRoute(route),
    transformObject: (document) => finish(addComponents(document) as ApiDescription),
  });
}

/** Returns a hook that describes how the routes of a scope are authenticated. */
export function securedBy(...schemes: (keyof typeof SECURITY_SCHEMES)[]) {
  return (route: RouteOptions): void => {
    route.schema = { ...route.schema, security: schemes.map((scheme) => ({ [scheme]: [] })) };
  };
}

interface ApiDescription {
  paths: Record<string, Record<string, { responses: Record<string, DescribedResponse> }>>;
  components: { schemas: Record<string, unknown> };
}

interface DescribedResponse {
  headers?: Record<string, { required?: boolean }>;
}

/** Marks headers as required, and removes unused components. */
function finish(document: ApiDescription): ApiDescription {
  const responses = Object.values(document.paths)
    .flatMap((operations) => Object.values(operations))
    .flatMap(({ responses }) => Object.values(responses));
  for (const { headers = {} } of responses) {
    for (const header of Object.values(headers)) {
      header.required = true;
    }
  }
  // The library describes each component as part of a request, too, where none is used.
  document.components.schemas = Object.fromEntries(
    Object.entries(document.components.schemas).filter(([name]) => !name.endsWith('Input')),
  );
  return document;
}

/** Joins the lines of each paragraph, list entry and row: pages break a line wherever its source does. */
export function unwrapped(markdown: string): string {
  return markdown.trim().replace(/(?<=[^\n])\n(?![\n|-])\s*/g, ' ');
}
