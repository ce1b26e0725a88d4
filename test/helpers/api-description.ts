import { readFileSync } from 'node:fs';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { routedPath } from '../../src/http/errors.ts';

interface Operation {
  responses: Record<string, DescribedResponse>;
}

interface DescribedResponse {
  headers?: Record<string, { schema: object; required?: boolean }>;
  content?: { 'application/json': { schema: object } };
}

interface Answer {
  status: number;
  headers: Headers;
  /** Null if there is none, as for HEAD. */
  body: unknown;
}

/** Characters of a path or a body in an error message. */
const MAX_SHOWN = 500;

/** `test/acceptance/openapi.test.ts` compares it with the document that the service serves. */
const FILE = new URL('../../docs/openapi.json', import.meta.url);

const description: {
  paths: Record<string, Record<string, Operation>>;
  components: object;
} = JSON.parse(readFileSync(FILE, 'utf8'), forbidFurtherFields);

const routes = Object.entries(description.paths).map(([template, operations]) => ({
  // A parameter in braces is one segment of a path.
  pattern: new RegExp(`^${template.replaceAll('.', '\\.').replace(/\{\w+\}/g, '[^/]+')}/?$`),
  operations,
}));

const options = { strict: false, allErrors: true, coerceTypes: false };
const bodies = new Ajv2020(options);
const headers = new Ajv2020({ ...options, coerceTypes: true });
addFormats.default(bodies);
addFormats.default(headers);
const validators = new Map<object, ValidateFunction>();

/** A response does not match the OpenAPI document. */
export class UndescribedAnswer extends Error {
  override readonly name = 'UndescribedAnswer';
}

/**
 * Checks the status, the headers and the body of a response; a body may have no undocumented field.
 * Responses of undocumented paths are not checked.
 *
 * @param target path and query
 * @throws UndescribedAnswer
 */
export function expectDescribed(method: string, target: string, answer: Answer): void {
  const operations = operationsOf(target);
  if (operations === undefined || method === 'OPTIONS') {
    return;
  }
  const problems = problemsOf(method, operations, answer);
  if (problems.length > 0) {
    const what = `${method} ${target}`.slice(0, MAX_SHOWN);
    const text = JSON.stringify(answer.body).slice(0, MAX_SHOWN);
    throw new UndescribedAnswer(
      `${what} (${answer.status}) is not as described: ${problems.join('; ')}: ${text}`,
    );
  }
}

function problemsOf(
  method: string,
  operations: Record<string, Operation>,
  answer: Answer,
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
    ...headerProblems(response, answer.headers),
    ...(method === 'HEAD' ? [] : bodyProblems(response, answer.body)),
  ];
}

/** Returns undefined if the path is undocumented or cannot be decoded. */
function operationsOf(target: string): Record<string, Operation> | undefined {
  const path = routedPath(target);
  try {
    decodeURIComponent(path);
  } catch {
    return undefined;
  }
  return routes.find(({ pattern }) => pattern.test(path))?.operations;
}

function headerProblems(response: DescribedResponse, sent: Headers): string[] {
  const described = Object.entries(response.headers ?? {}).flatMap(([name, header]) => {
    const value = sent.get(name);
    if (value === null) {
      return header.required === true ? [`the header ${name} is missing`] : [];
    }
    const validate = validatorOf(header, () =>
      headers.compile({ type: 'object', properties: { [name]: header.schema } }),
    );
    return validate({ [name]: value }) ? [] : [headers.errorsText(validate.errors)];
  });
  const isJson = /^application\/json\b/.test(sent.get('content-type') ?? '');
  return response.content === undefined || isJson ? described : [...described, 'it is not JSON'];
}

function bodyProblems(response: DescribedResponse, body: unknown): string[] {
  const schema = response.content?.['application/json'].schema;
  if (schema === undefined) {
    return body === null ? [] : ['a body is not described'];
  }
  const validate = validatorOf(schema, () =>
    bodies.compile({ ...schema, components: description.components }),
  );
  return validate(body) ? [] : [bodies.errorsText(validate.errors, { dataVar: 'body' })];
}

function validatorOf(part: object, compile: () => ValidateFunction): ValidateFunction {
  const validate = validators.get(part) ?? compile();
  validators.set(part, validate);
  return validate;
}

/** The document allows further fields for later versions; the tests do not. */
function forbidFurtherFields(_key: string, value: unknown): unknown {
  const isObject =
    typeof value === 'object' && value !== null && 'type' in value && value.type === 'object';
  return isObject && 'properties' in value ? { additionalProperties: false, ...value } : value;
}
