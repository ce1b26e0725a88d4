import { readFileSync } from 'node:fs';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { normaliseRequestPath } from '../../src/http/errors.ts';

interface OpenApiOperation {
  responses: Record<string, OpenApiResponse>;
}

interface OpenApiResponse {
  headers?: Record<string, { schema: object; required?: boolean }>;
  content?: { 'application/json': { schema: object } };
}

interface ReceivedResponse {
  status: number;
  headers: Headers;
  /** Null without a body, for example for HEAD. */
  body: unknown;
}

/** Maximum length of a path or body in an error message. */
const MAX_MESSAGE_CHARACTERS = 500;

/** `test/acceptance/openapi.test.ts` compares it with the document that the service serves. */
const OPENAPI_FILE = new URL('../../docs/openapi.json', import.meta.url);

const openApiDocument: {
  paths: Record<string, Record<string, OpenApiOperation>>;
  components: object;
} = JSON.parse(readFileSync(OPENAPI_FILE, 'utf8'), forbidAdditionalProperties);

const routes = Object.entries(openApiDocument.paths).map(([template, operations]) => ({
  // A parameter in braces is one segment of a path.
  pattern: new RegExp(`^${template.replaceAll('.', '\\.').replace(/\{\w+\}/g, '[^/]+')}/?$`),
  operations,
}));

const ajvOptions = { strict: false, allErrors: true, coerceTypes: false };
const bodyAjv = new Ajv2020(ajvOptions);
const headerAjv = new Ajv2020({ ...ajvOptions, coerceTypes: true });
addFormats.default(bodyAjv);
addFormats.default(headerAjv);
const validators = new Map<object, ValidateFunction>();

/** A response does not match the OpenAPI document. */
export class UndocumentedResponseError extends Error {
  override readonly name = 'UndescribedAnswer';
}

/**
 * Checks the status, the headers and the body of a response; a body may have no undocumented field.
 * Responses of undocumented paths are not checked.
 *
 * @param target path and query
 * @throws UndocumentedResponseError
 */
export function assertMatchesOpenApi(
  method: string,
  target: string,
  answer: ReceivedResponse,
): void {
  const operations = findOperations(target);
  if (operations === undefined || method === 'OPTIONS') {
    return;
  }
  const problems = findProblems(method, operations, answer);
  if (problems.length > 0) {
    const what = `${method} ${target}`.slice(0, MAX_MESSAGE_CHARACTERS);
    const text = JSON.stringify(answer.body).slice(0, MAX_MESSAGE_CHARACTERS);
    throw new UndocumentedResponseError(
      `${what} (${answer.status}) is not as described: ${problems.join('; ')}: ${text}`,
    );
  }
}

function findProblems(
  method: string,
  operations: Record<string, OpenApiOperation>,
  answer: ReceivedResponse,
): string[] {
  const operation = operations[method === 'HEAD' ? 'get' : method.toLowerCase()];
  if (operation === undefined) {
    return answer.status === 404 ? [] : ['the method is not there'];
  }
  const response = operation.responses[answer.status];
  if (response === undefined) {
    return ['the status is not there'];
  }
  return [
    ...findHeaderProblems(response, answer.headers),
    ...(method === 'HEAD' ? [] : findBodyProblems(response, answer.body)),
  ];
}

/** Returns undefined if the path is undocumented or cannot be decoded. */
function findOperations(target: string): Record<string, OpenApiOperation> | undefined {
  const path = normaliseRequestPath(target);
  try {
    decodeURIComponent(path);
  } catch {
    return undefined;
  }
  return routes.find(({ pattern }) => pattern.test(path))?.operations;
}

function findHeaderProblems(response: OpenApiResponse, received: Headers): string[] {
  const described = Object.entries(response.headers ?? {}).flatMap(([name, header]) => {
    const value = received.get(name);
    if (value === null) {
      return header.required === true ? [`the header ${name} is missing`] : [];
    }
    const validate = getValidator(header, () =>
      headerAjv.compile({ type: 'object', properties: { [name]: header.schema } }),
    );
    return validate({ [name]: value }) ? [] : [headerAjv.errorsText(validate.errors)];
  });
  const isJson = /^application\/json\b/.test(received.get('content-type') ?? '');
  return response.content === undefined || isJson ? described : [...described, 'it is not JSON'];
}

function findBodyProblems(response: OpenApiResponse, body: unknown): string[] {
  const schema = response.content?.['application/json'].schema;
  if (schema === undefined) {
    return body === null ? [] : ['a body is not described'];
  }
  const validate = getValidator(schema, () =>
    bodyAjv.compile({ ...schema, components: openApiDocument.components }),
  );
  return validate(body) ? [] : [bodyAjv.errorsText(validate.errors, { dataVar: 'body' })];
}

function getValidator(part: object, compile: () => ValidateFunction): ValidateFunction {
  const validate = validators.get(part) ?? compile();
  validators.set(part, validate);
  return validate;
}

/** Rejects undocumented fields, which the document allows for later versions. */
function forbidAdditionalProperties(_key: string, value: unknown): unknown {
  const isObject =
    typeof value === 'object' && value !== null && 'type' in value && value.type === 'object';
  return isObject && 'properties' in value ? { additionalProperties: false, ...value } : value;
}
