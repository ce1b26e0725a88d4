import type { EventVerifier } from '../auth/event-verifier.ts';
import { Refusal } from '../domain/errors.ts';
import { formReadings } from '../domain/form-text.ts';
import { readZapRequest, type ZapRules } from '../domain/zap-request.ts';

/**
 * The payer's words (LUD-12), or null where there are none, or none are taken.
 *
 * @param maxLength in Unicode code points, of which an emoji may have several; 0: none are taken
 * @throws Refusal where they are too long, or cannot be kept
 */
export function readComment(comment: string, maxLength: number): string | null {
  if (maxLength === 0 || comment.trim() === '') {
    return null;
  }
  if ([...comment].length > maxLength) {
    throw new Refusal('invalid', `The comment must have at most ${maxLength} characters.`);
  }
  if (comment.includes('\0')) {
    throw new Refusal('invalid', 'The comment must not have NUL characters.');
  }
  return comment;
}

/**
 * The zap request of a url's `nostr` parameter (NIP-57), to the byte as it was signed; null where
 * there is none.
 *
 * @throws Refusal where it breaks a rule
 */
export function readZapParameter(
  url: string,
  rules: ZapRules,
  verifyEvent: EventVerifier,
): string | null {
  const [given, ...more] = queryValues(url, 'nostr').filter((value) => value !== '');
  if (given === undefined) {
    return null;
  }
  if (more.length > 0) {
    throw new Refusal('invalid', 'The zap request must be given once.');
  }
  const reading = readZapRequest(formReadings(given), rules, verifyEvent);
  if (reading.outcome === 'refused') {
    throw new Refusal('invalid', reading.reason);
  }
  return reading.text;
}

/** Each value of a parameter as it stands in a url's query, in percents. */
function queryValues(url: string, name: string): string[] {
  const [, query = ''] = /\?([^#]*)/.exec(url) ?? [];
  return query
    .split('&')
    .filter((parameter) => parameter.startsWith(`${name}=`))
    .map((parameter) => parameter.slice(name.length + 1));
}
