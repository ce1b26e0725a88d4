import swagger from '@fastify/swagger';
import type { FastifyInstance, RouteOptions } from 'fastify';
import {
  createJsonSchemaTransform,
  createJsonSchemaTransformObject,
} from 'fastify-type-provider-zod';
import { API_OVERVIEW } from './api-overview.ts';

/** How a request says who sends it (spec.md section 5). */
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

/** What zod says of objects, in the words of a description that the next version may add to. */
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
 * Collects the description of the API (OpenAPI 3.1) from the schemas of routes that have an
 * `operationId`; the others are not part of it. To be called before there is any route.
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

/** Hook for a scope of routes: their description says that one of these is needed. */
export function securedBy(...schemes: (keyof typeof SECURITY_SCHEMES)[]) {
  return (route: RouteOptions): void => {
    route.schema = { ...route.schema, security: schemes.map((scheme) => ({ [scheme]: [] })) };
  };
}

/** As much of the document as is read here. */
interface ApiDescription {
  paths: Record<string, Record<string, { responses: Record<string, DescribedResponse> }>>;
  components: { schemas: Record<string, unknown> };
}

interface DescribedResponse {
  headers?: Record<string, { required?: boolean }>;
}

/** What the libraries leave to be done. */
function finish(document: ApiDescription): ApiDescription {
  const responses = Object.values(document.paths)
    .flatMap((operations) => Object.values(operations))
    .flatMap(({ responses }) => Object.values(responses));
  for (const { headers = {} } of responses) {
    for (const header of Object.values(headers)) {
      header.required = true;
    }
  }
  const { schemas } = document.components;
  const answers = Object.entries(schemas).filter(([name]) => !isOfRequests(name));
  document.components.schemas = Object.fromEntries(answers);
  return document;
}

/** Each component is described as part of a request, too; no request has any. */
function isOfRequests(component: string): boolean {
  return component.endsWith('Input');
}
