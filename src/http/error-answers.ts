import { z } from 'zod';

/** An error as the API and name lookups say it (spec.md section 2). */
export const apiError = z
  .object({
    error: z.literal(true),
    message: z.string().describe('For people. Programs go by the status.'),
  })
  .meta({ id: 'ApiError', description: 'What is wrong, as the API and name lookups say it.' });

/** An error as payers' wallets know it (LUD-06). */
export const lnurlError = z
  .object({
    status: z.literal('ERROR'),
    reason: z.string().describe('For the person who pays.'),
  })
  .meta({ id: 'LnurlError', description: 'What is wrong, as payers’ wallets know it (LUD-06).' });

/** The request was not read, so that it is not known which format its client expects. */
const errorForAnybody = apiError.extend(lnurlError.shape).meta({
  id: 'ErrorForAnybody',
  description: 'What is wrong with a request whose path was not read.',
});

const DESCRIPTIONS = {
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

type ErrorStatus = keyof typeof DESCRIPTIONS;

/** What every request may meet, whatever it is for. */
const EVERYWHERE = [429, 431] as const;

/** The errors of a route in the API's words, for its `response`: these, and what every request may meet. */
export function apiErrors<Status extends ErrorStatus>(...statuses: Status[]) {
  return errorAnswers(apiError, [...statuses, ...EVERYWHERE]);
}

/** The same in LNURL's words. */
export function lnurlErrors<Status extends ErrorStatus>(...statuses: Status[]) {
  return errorAnswers(lnurlError, [...statuses, ...EVERYWHERE]);
}

function errorAnswers<Schema extends z.ZodType, Status extends ErrorStatus>(
  schema: Schema,
  statuses: Status[],
): Record<Status, Schema> {
  const answers = statuses.map((status) => {
    const said = status === 431 ? errorForAnybody : schema;
    return [status, said.meta(DESCRIPTIONS[status])];
  });
  return Object.fromEntries(answers) as Record<Status, Schema>;
}
