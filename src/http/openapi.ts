import swagger from '@fastify/swagger';
import type { FastifyInstance, RouteOptions } from 'fastify';
import {
  createJsonSchemaTransform,
  createJsonSchemaTransformObject,
} from 'fastify-type-provider-zod';
import { VERSION } from '../version.ts';

const API_OVERVIEW = unwrapMarkdown(`
A Lightning address for every Nostr key. Each payment is a Cashu mint quote, which the recipient's wallet mints
directly with the mint.

- Timestamps are Unix seconds and amounts are sats, always whole numbers; LNURL uses millisatoshis. Missing
  values are omitted, never null. Ignore unknown fields: later versions may add some.
- A NIP-98 event signs the public origin that you call and the path, without the query.
- Web pages on any origin may call this API: every response has \`Access-Control-Allow-Origin: *\`.
- Unknown paths return 404. A known path with another method returns 405 with \`Allow\`. Malformed HTTP returns 400
  and a request that arrives too slowly 408; both close the connection.
- Rate limits return 429 with \`Retry-After\`.
- Every response has an \`X-Request-Id\`, except those to malformed HTTP or WebSocket handshakes. With it, the
  operator finds failed requests in the log.

How a payment works: the payer's wallet reads \`/.well-known/lnurlp/{user}\`, requests an invoice and pays it. The
payment appears in \`/api/v2/wallet/quotes\`, and \`/api/v2/ws/quote\` notifies the recipient's wallets. They mint
each quote at its \`mintUrl\`, store the proofs, and remember the quote as completed.
`);

const SECURITY_SCHEMES = {
  nostr: {
    type: 'http',
    scheme: 'Nostr',
    description:
      '`Authorization: Nostr <event>`: a base64 NIP-98 event for this URL (without query) and method.',
  },
  bearer: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: '`Authorization: Bearer <token>`: a token from `GET /api/v2/auth/nip98`.',
  },
} as const;

/** Lets responses have additional properties, because later versions may add fields. */
const zodToJsonConfig = {
  override: ({ jsonSchema }: { jsonSchema: { additionalProperties?: unknown } }) => {
    if (jsonSchema.additionalProperties === false) {
      delete jsonSchema.additionalProperties;
    }
  },
};

const transformRoute = createJsonSchemaTransform({ zodToJsonConfig });
const addSchemaComponents = createJsonSchemaTransformObject({ zodToJsonConfig });

/** Generates the OpenAPI document from routes with an `operationId`. Must be called before they are registered. */
export async function registerOpenApi(app: FastifyInstance): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.1',
      info: { title: 'nutpost', version: VERSION, description: API_OVERVIEW },
      tags: [
        { name: 'Payers', description: 'LNURL and NIP-05.' },
        { name: 'Wallets', description: 'For the wallets of recipients.' },
      ],
      components: { securitySchemes: SECURITY_SCHEMES },
    },
    convertConstToEnum: false,
    transform: (route) => {
      if (route.schema?.operationId === undefined) {
        return { schema: { hide: true }, url: route.url };
      }
      const tags = [route.url.startsWith('/api/') ? 'Wallets' : 'Payers'];
      return transformRoute({ ...route, schema: { ...route.schema, tags } });
    },
    transformObject: (document) =>
      postProcessDocument(addSchemaComponents(document) as OpenApiDocument),
  });
}

/** Returns an `onRoute` hook that documents how clients authenticate at the routes of a scope. */
export function documentSecurity(...schemes: (keyof typeof SECURITY_SCHEMES)[]) {
  return (route: RouteOptions): void => {
    route.schema = { ...route.schema, security: schemes.map((scheme) => ({ [scheme]: [] })) };
  };
}

interface OpenApiDocument {
  paths: Record<string, Record<string, { responses: Record<string, OpenApiResponse> }>>;
  components: { schemas: Record<string, unknown> };
}

type OpenApiResponse = { headers?: Record<string, { required?: boolean }> };

/** Marks response headers as required and removes unused components. */
function postProcessDocument(document: OpenApiDocument): OpenApiDocument {
  const operations = Object.values(document.paths).flatMap((path) => Object.values(path));
  const responses = operations.flatMap((operation) => Object.values(operation.responses));
  for (const header of responses.flatMap(({ headers = {} }) => Object.values(headers))) {
    header.required = true;
  }
  // The library also adds an input variant of each component. No request uses these variants.
  document.components.schemas = Object.fromEntries(
    Object.entries(document.components.schemas).filter(([name]) => !name.endsWith('Input')),
  );
  return document;
}

/** Joins the lines of each paragraph and list item, but not of tables, because Swagger UI shows source line breaks. */
export function unwrapMarkdown(markdown: string): string {
  return markdown.trim().replace(/(?<=[^\n])\n(?![\n|-])\s*/g, ' ');
}
