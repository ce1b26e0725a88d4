import { z } from 'zod';
import { type ErrorCode, STATUS_BY_CODE } from '../errors.ts';
import type { Recipient } from '../recipients/recipient-directory.ts';

export function queryInteger(min: number, max: number = Number.MAX_SAFE_INTEGER) {
  const error = `must be one whole number from ${min} to ${max}`;
  return z.preprocess(
    (text) => (typeof text === 'string' && /^\d+$/.test(text) ? Number(text) : text),
    z.number({ error }).min(min, { error }).max(max, { error }).meta({ type: 'integer' }),
  );
}

/** A missing body counts as `{}`, so that the error names the missing fields. */
export function jsonBody<Shape extends z.ZodRawShape>(shape: Shape) {
  return z.preprocess((body) => body ?? {}, z.object(shape, { error: 'must be a JSON object' }));
}

export function successEnvelope<Data extends z.ZodType>(data: Data) {
  return z.object({ error: z.literal(false), data });
}

export function success<Data>(data: Data) {
  return { error: false as const, data };
}

export const unixSeconds = z.number().meta({ type: 'integer' });

export const nonNegativeInteger = z.number().min(0).meta({ type: 'integer' });

export const hexPubkey = z.string().regex(/^[0-9a-f]{64}$/);

const userSchema = z
  .object({
    pubkey: hexPubkey,
    name: z.string().optional().describe('The purchased username, if any.'),
    mintUrl: z.url().describe('The mint of future payments.'),
    lockQuote: z.boolean().describe('Whether future quotes are locked to this key (NUT-20).'),
    member: z
      .boolean()
      .optional()
      .describe('Whether the user can be paid. Absent unless the server is for members.'),
  })
  .meta({ id: 'User', description: 'A user’s settings.' });

export const userResponse = successEnvelope(z.object({ user: userSchema })).meta({
  description: 'The user’s current settings.',
});

export function renderUser({ pubkey, name, mintUrl, lockQuotes, isMember }: Recipient) {
  const optional = { name: name ?? undefined, member: isMember ?? undefined };
  return success({ user: { pubkey, mintUrl, lockQuote: lockQuotes, ...optional } });
}

export const apiError = z
  .object({
    error: z.literal(true),
    code: z
      .enum(Object.keys(STATUS_BY_CODE) as ErrorCode[])
      .describe('For programs. Later versions may add codes.'),
    message: z.string().describe('For people; the wording may change.'),
  })
  .meta({ id: 'ApiError', description: 'An error of the API or of a name lookup.' });

export const lnurlError = z
  .object({ status: z.literal('ERROR'), reason: z.string().describe('For the payer.') })
  .meta({ id: 'LnurlError', description: 'An LNURL error (LUD-06).' });

const combinedError = apiError.extend(lnurlError.shape).meta({
  id: 'CombinedError',
  description: 'An error of a request whose path could not be read.',
});

const RETRY_AFTER_HEADER = {
  'Retry-After': { type: 'integer', minimum: 1, description: 'Seconds.' },
} as const;

const ERROR_DESCRIPTIONS = {
  400: { description: 'The request is invalid or incomplete.' },
  401: {
    description: 'The authorization is missing, invalid or expired.',
    headers: { 'WWW-Authenticate': { type: 'string', description: 'The supported schemes.' } },
  },
  404: { description: 'This server does not offer it.' },
  413: { description: 'The body is too large.' },
  429: {
    description: 'Rate limit exceeded. Retry after the time in `Retry-After`.',
    headers: RETRY_AFTER_HEADER,
  },
  431: { description: 'The URL and the headers together are too large.' },
  500: {
    description: 'The server or a mint failed. The id in the message is also in the server’s log.',
  },
  503: {
    description: 'The database is unavailable. Retry after the time in `Retry-After`.',
    headers: RETRY_AFTER_HEADER,
  },
} as const;

type ErrorStatus = keyof typeof ERROR_DESCRIPTIONS;

/** The error responses of a route. Includes the statuses that every route can have. */
export const apiErrors = <Status extends ErrorStatus>(...statuses: Status[]) =>
  describeErrors(apiError, statuses);

export const lnurlErrors = <Status extends ErrorStatus>(...statuses: Status[]) =>
  describeErrors(lnurlError, statuses);

function describeErrors<Schema extends z.ZodType, Status extends ErrorStatus>(
  schema: Schema,
  statuses: Status[],
) {
  const responses = ([...statuses, 429, 431] as const).map((status) => {
    const body = status === 431 ? combinedError : schema;
    return [status, body.meta(ERROR_DESCRIPTIONS[status])];
  });
  return Object.fromEntries(responses) as Record<Status | 429 | 431, Schema>;
}
