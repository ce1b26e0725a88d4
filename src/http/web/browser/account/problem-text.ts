import type { ErrorCode } from '../../../../errors.ts';
import { MAX_TOKEN_LENGTH } from '../../../../usernames/limits.ts';
import type { TextKey } from '../../translation.ts';
import { describeUnexpected, ExplainedError } from '../explained-error.ts';
import { readRetryAfterMs } from '../retry-after.ts';
import { t } from '../translator.ts';
import { ApiError } from './api-client.ts';

/** What codes of the API mean, if they say enough. The messages of the API are in English, and for programs too. */
export type CodeTexts = { readonly [code in ErrorCode]?: TextKey };

export const API_TEXTS: CodeTexts = {
  locking_unsupported: 'account.lockingUnsupported',
  mint_not_allowed: 'account.mintNotAllowed',
  mint_unusable: 'account.mintUnavailable',
  not_a_member: 'account.membersOnly',
  invitation_invalid: 'account.invitationInvalid',
  name_invalid: 'account.nameInvalid',
  name_reserved: 'account.nameReserved',
  name_taken: 'account.nameTaken',
  name_not_for_sale: 'account.namesNotForSale',
  // For these, the page adds when to try again.
  database_unavailable: 'account.serverProblem',
  unavailable: 'account.mintProblem',
  purchase_in_progress: 'account.purchaseInProgress',
};

const DEFAULT_RETRY_SECONDS = 60;

/** @param actionTexts what codes mean after a certain action */
export function describeProblem(error: unknown, actionTexts: CodeTexts = {}): string {
  if (isOutcomeUnknown(error)) {
    return t('account.noResponse');
  }
  if (!(error instanceof ApiError)) {
    return describeUnexpected(error);
  }
  const { code, status, headers, message } = error;
  const actionText = code && actionTexts[code];
  if (actionText) {
    return t(actionText, { reason: message });
  }
  const text = code && API_TEXTS[code];
  const problem = text ? t(text) : t('account.serverSays', { reason: message });
  if (code === 'unauthorized') {
    return isClockWrong(error) ? t('account.wrongClock') : t('account.signInAgain', { problem });
  }
  if (status === 429) {
    const seconds = readRetryAfterMs(headers, DEFAULT_RETRY_SECONDS) / 1_000;
    return t('account.rateLimited', { seconds });
  }
  return status >= 500 ? t('account.retry', { problem }) : problem;
}

/** Signatures are valid for a minute. */
function isClockWrong({ headers }: ApiError): boolean {
  return Math.abs(Date.now() - Date.parse(headers.get('date') ?? '')) > 60_000;
}

/** Whether there was no complete response, so the server may have executed the request or not. */
export function isOutcomeUnknown(error: unknown): boolean {
  // `fetch` fails with a TypeError. So does reading a response that was cut off.
  return (
    error instanceof TypeError || (error instanceof DOMException && error.name === 'TimeoutError')
  );
}

/** Returns a token without the line breaks that some programs add. Throws if a text cannot be sent as a token. */
export function parseToken(text: string): string {
  const token = text.replace(/\s+/g, '');
  if (!/^(?:cashu:(?:\/\/)?)?cashu[AB][!-~]+$/.test(token)) {
    throw new ExplainedError(t('account.tokenInvalid'));
  }
  // A proxy may drop a request with such a token without a response. Then the user could not know whether it was spent.
  if (token.length > MAX_TOKEN_LENGTH) {
    throw new ExplainedError(t('account.tokenTooLong'));
  }
  return token;
}
