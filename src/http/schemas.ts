import { z } from 'zod';

/** A whole number in a query string. Its error message names what is wrong. */
export function queryInteger(min: number, max: number = Number.MAX_SAFE_INTEGER) {
  const error = ({ input }: { input?: unknown }) => {
    if (Array.isArray(input)) {
      return 'must be given once';
    }
    return typeof input === 'number'
      ? `must be a whole number from ${min} to ${max}`
      : 'must be a whole number';
  };
  return z.preprocess(
    (text) => (typeof text === 'string' && /^\d+$/.test(text) ? Number(text) : text),
    z.number({ error }).min(min, { error }).max(max, { error }).meta({ type: 'integer' }),
  );
}

/** A JSON body. A missing one is treated as empty, so that the error names the missing fields. */
export function jsonBody<Shape extends z.ZodRawShape>(shape: Shape) {
  return z.preprocess((body) => body ?? {}, z.object(shape, { error: 'must be a JSON object' }));
}

/** The envelope of a successful API response (spec.md section 1). */
export function success<Data extends z.ZodType>(data: Data) {
  return z.object({ error: z.literal(false), data });
}

export const unixSeconds = z.number().meta({ type: 'integer' });

export const wholeNumber = z.number().min(0).meta({ type: 'integer' });

export const hexKey = z.string().regex(/^[0-9a-f]{64}$/);

/** An error of the API and of name lookups (spec.md section 2). */
export const apiError = z
  .object({
    error: z.literal(true),
    message: z.string().describe('For people. Programs go by the status.'),
  })
  .meta({ id: 'ApiError', description: 'What is wrong, as the API and name lookups say it.' });

/** An error for payers' wallets (LUD-06). */
export const lnurlError = z
  .object({
    status: z.literal('ERROR'),
    reason: z.string().describe('For the person who pays.'),
  })
  .meta({ id: 'LnurlError', description: 'What is wrong, as payers’ wallets know it (LUD-06).' });

/** An error of a request that was not read, so that the format its client expects is unknown. */
const errorForAnybody = apiError.extend(lnurlError.shape).meta({
  id: 'ErrorForAnybody',
  description: 'What is wrong with a request whose path was not read.',
});

const ERROR_DESCRIPTIONS = {
  400: { description: 'The request is wrong, or something is missing in it.' },
  401: {
    description: 'The authorization is missing, wrong or expired.',
    headers: {
      'WWW-Authenticate': { type: 'string', description: 'The schemes that exist.' },
    },
  },
  413: { description: 'The body is too large.' },
  429: {
    description: 'Asked too often. Right again after as many seconds as `Retry-After` says.',
    headers: {
      'Retry-After': { type: 'integer', minimum: 1, description: 'Seconds.' },
    },
  },
  431: { description: 'The url and the headers together are too large.' },
  500: {
    description:
      'Right, but not now: a mint or the database does not answer, or there is a bug, of which ' +
      'the operator’s log tells more under the id in the text.',
  },
} as const;

type ErrorStatus = keyof typeof ERROR_DESCRIPTIONS;

/** The error responses of an API route, for its `response`: the given ones, and those of every route. */
export function apiErrors<Status extends ErrorStatus>(...statuses: Status[]) {
  return errorResponses(apiError, statuses);
}

export function lnurlErrors<Status extends ErrorStatus>(...statuses: Status[]) {
  return errorResponses(lnurlError, statuses);
}

function errorResponses<Schema extends z.ZodType, Status extends ErrorStatus>(
  schema: Schema,
  statuses: Status[],
): Record<Status | 429 | 431, Schema> {
  const responses = ([...statuses, 429, 431] as const).map((status) => {
    const body = status === 431 ? errorForAnybody : schema;
    return [status, body.meta(ERROR_DESCRIPTIONS[status])];
  });
  return Object.fromEntries(responses) as Record<Status | 429 | 431, Schema>;
}
