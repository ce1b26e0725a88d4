import { readFileSync } from 'node:fs';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { normaliseRequestPath } from '../../../src/http/routed-paths.ts';

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
  /** Null if the response has no body. */
  body: unknown;
}

/** A test in `test/acceptance/openapi.test.ts` checks that the service serves the same document. */
const OPENAPI_FILE = new URL('../../../docs/openapi.json', import.meta.url);

const openApiDocument: {
  paths: Record<string, Record<string, OpenApiOperation>>;
  components: object;
} = JSON.parse(readFileSync(OPENAPI_FILE, 'utf8'), forbidUndocumentedFields);

const routes = Object.entries(openApiDocument.paths).map(([template, operations]) => ({
  // A parameter, such as `{name}`, matches one path segment.
  pattern: new RegExp(`^${template.replaceAll('.', '\\.').replace(/\{\w+\}/g, '[^/]+')}/?$`),
  operations,
}));

const ajvOptions = { strict: false, allErrors: true, coerceTypes: false };
const bodyAjv = new Ajv2020(ajvOptions);
const headerAjv = new Ajv2020({ ...ajvOptions, coerceTypes: true });
addFormats.default(bodyAjv);
addFormats.default(headerAjv);
const validators = new Map<object, ValidateFunction>();

export class UndocumentedResponseError extends Error {
  override readonly name = 'UndocumentedResponseError';
}

/** Does not check responses to undocumented paths. @throws UndocumentedResponseError */
export function assertMatchesOpenApi(
  method: string,
  target: string,
  response: ReceivedResponse,
): void {
  const operations = findOperations(target);
  if (operations === undefined || method === 'OPTIONS') {
    return;
  }
  const problems = findProblems(method, operations, response);
  if (problems.length > 0) {
    const request = `${method} ${target}`.slice(0, 500);
    const bodyText = JSON.stringify(response.body).slice(0, 500);
    throw new UndocumentedResponseError(
      `the response to ${request} does not match docs/openapi.json: ${problems.join('; ')} ` +
        `(status ${response.status}, body ${bodyText})`,
    );
  }
}

function findProblems(
  method: string,
  operations: Record<string, OpenApiOperation>,
  response: ReceivedResponse,
): string[] {
  const operation = operations[method === 'HEAD' ? 'get' : method.toLowerCase()];
  if (operation === undefined) {
    return response.status === 405 ? [] : ['the method is undocumented'];
  }
  const documented = operation.responses[response.status];
  if (documented === undefined) {
    return ['the status is undocumented'];
  }
  return [
    ...findHeaderProblems(documented, response.headers),
    ...(method === 'HEAD' ? [] : findBodyProblems(documented, response.body)),
  ];
}

function findOperations(target: string): Record<string, OpenApiOperation> | undefined {
  const path = normaliseRequestPath(target);
  try {
    decodeURIComponent(path);
  } catch {
    return undefined;
  }
  return routes.find(({ pattern }) => pattern.test(path))?.operations;
}

function findHeaderProblems(documented: OpenApiResponse, headers: Headers): string[] {
  const problems = Object.entries(documented.headers ?? {}).flatMap(([name, header]) => {
    const value = headers.get(name);
    if (value === null) {
      return header.required === true ? [`the header ${name} is missing`] : [];
    }
    const validate = getValidator(header, () =>
      headerAjv.compile({ type: 'object', properties: { [name]: header.schema } }),
    );
    return validate({ [name]: value }) ? [] : [headerAjv.errorsText(validate.errors)];
  });
  const isJson = /^application\/json\b/.test(headers.get('content-type') ?? '');
  return documented.content === undefined || isJson
    ? problems
    : [...problems, 'the content type is not JSON'];
}

function findBodyProblems(documented: OpenApiResponse, body: unknown): string[] {
  const schema = documented.content?.['application/json'].schema;
  if (schema === undefined) {
    return body === null ? [] : ['the body is undocumented'];
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

/** Makes the validators reject undocumented fields. The document allows them, for later versions of the API. */
function forbidUndocumentedFields(_key: string, value: unknown): unknown {
  const isObject =
    typeof value === 'object' && value !== null && 'type' in value && value.type === 'object';
  return isObject && 'properties' in value ? { additionalProperties: false, ...value } : value;
}
