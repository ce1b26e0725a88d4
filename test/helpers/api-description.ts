import { readFileSync } from 'node:fs';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { routedPath } from '../../src/http/routed-path.ts';

/** What the API's description says, as far as answers are checked against it (OpenAPI 3.1). */
interface Description {
  paths: Record<string, Record<string, Operation>>;
  components: object;
}

interface Operation {
  responses: Record<string, DescribedResponse>;
}

interface DescribedResponse {
  headers?: Record<string, { schema: object; required?: boolean }>;
  content?: { 'application/json': { schema: object } };
}

/** Of a path or a body, as much as tells what it was. */
const MAX_SHOWN = 500;

/** An answer of the service, or of anybody else. */
interface Answer {
  status: number;
  headers: Headers;
  /** Null where there is none, as of HEAD. */
  body: unknown;
}

/** Kept equal to what the service answers by `test/acceptance/openapi.test.ts`. */
const FILE = new URL('../../docs/openapi.json', import.meta.url);

const description = closed(JSON.parse(readFileSync(FILE, 'utf8'))) as Description;

const routes = Object.entries(description.paths).map(([template, operations]) => ({
  // What stands in braces in a template is one part of a path.
  pattern: new RegExp(`^${template.replaceAll('.', '\\.').replace(/\{\w+\}/g, '[^/]+')}/?$`),
  operations,
}));

const bodies = withFormats(new Ajv2020({ strict: false, allErrors: true }));
const headers = withFormats(new Ajv2020({ strict: false, coerceTypes: true }));
const validators = new Map<object, ValidateFunction>();

/** An answer is not as the API's description says. */
export class UndescribedAnswer extends Error {
  override readonly name = 'UndescribedAnswer';
}

/**
 * Checks an answer against the API's description: its status, its headers, and its body, which may have
 * no field that is not described. What comes from a path that is not described is not checked.
 *
 * @param target the path that was asked for, and its query
 * @throws UndescribedAnswer that tells what is not as described
 */
export function expectDescribed(method: string, target: string, answer: Answer): void {
  const operations = operationsOf(target);
  if (operations === null || method === 'OPTIONS') {
    return;
  }
  const operation = operations[method === 'HEAD' ? 'get' : method.toLowerCase()];
  const problems =
    operation === undefined ? notFound(answer) : problemsOf(method, operation, answer);
  if (problems.length > 0) {
    const what = shown(`${method} ${target}`);
    const text = shown(JSON.stringify(answer.body));
    throw new UndescribedAnswer(
      `${what} (${answer.status}) is not as described: ${problems.join('; ')}: ${text}`,
    );
  }
}

function problemsOf(method: string, operation: Operation, answer: Answer): string[] {
  const response = operation.responses[answer.status];
  return response === undefined
    ? ['the status is not there']
    : [
        ...headerProblems(response, answer.headers),
        ...(method === 'HEAD' ? [] : bodyProblems(response, answer.body)),
      ];
}

/** Null: nobody describes this path, or it is none. */
function operationsOf(target: string): Record<string, Operation> | null {
  const path = routedPath(target);
  return canBeDecoded(path)
    ? (routes.find(({ pattern }) => pattern.test(path))?.operations ?? null)
    : null;
}

function canBeDecoded(path: string): boolean {
  try {
    decodeURIComponent(path);
    return true;
  } catch {
    return false;
  }
}

/** Who asks with a method that a path does not have finds nothing. */
function notFound({ status }: Answer): string[] {
  return status === 404 ? [] : ['the method is not there'];
}

function shown(text: string): string {
  return text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}...` : text;
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
  const known = validators.get(part) ?? compile();
  validators.set(part, known);
  return known;
}

function withFormats(ajv: Ajv2020): Ajv2020 {
  addFormats.default(ajv);
  return ajv;
}

/** The description lets answers have more fields, for the next version; this version has no others. */
function closed(value: unknown): unknown {
  if (Array.isArray(value)) {
    return value.map(closed);
  }
  if (typeof value !== 'object' || value === null) {
    return value;
  }
  const copy = Object.fromEntries(Object.entries(value).map(([key, part]) => [key, closed(part)]));
  return copy['type'] === 'object' && 'properties' in copy
    ? { additionalProperties: false, ...copy }
    : copy;
}
