import {
  HttpResponseError,
  MintOperationError,
  NetworkError,
  RateLimitError,
} from '@cashu/cashu-ts';
import { describeUnexpected } from '../explained-error.ts';
import { t } from '../translator.ts';
import { MINT_TIMEOUT_MS } from './limits.ts';
import { PaymentFailedError } from './mint-wallet.ts';

/** Says in words why something at a mint failed. */
export async function describeMintProblem(error: unknown, mintUrl: string): Promise<string> {
  const mint = formatMint(mintUrl);
  if (error instanceof PaymentFailedError) {
    // Some mints answer that the payment has failed without saying why.
    return error.cause === null
      ? t('collect.interrupted')
      : t('collect.notPaid', { reason: await describeMintProblem(error.cause, mintUrl) });
  }
  if (error instanceof NetworkError) {
    // A response that the page may not read ends as a network error, too.
    const canReach = (mode: RequestMode) =>
      fetch(`${mintUrl}/v1/info`, { mode, signal: AbortSignal.timeout(MINT_TIMEOUT_MS) }).then(
        () => true,
        () => false,
      );
    return !(await canReach('cors')) && (await canReach('no-cors'))
      ? t('collect.noCors', { mint })
      : t('collect.noAnswer', { mint });
  }
  if (error instanceof RateLimitError) {
    return t('collect.limited', { mint });
  }
  if (error instanceof MintOperationError) {
    const reason = error.message.slice(0, 200);
    return t('collect.refused', { mint, reason: /[.!?。]$/.test(reason) ? reason : `${reason}.` });
  }
  if (error instanceof HttpResponseError) {
    return t('collect.failed', { mint, status: error.status });
  }
  return describeUnexpected(error);
}

export function formatMint(mintUrl: string): string {
  return mintUrl.replace(/^https?:\/\//, '');
}
