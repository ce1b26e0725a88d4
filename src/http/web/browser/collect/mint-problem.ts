import {
  HttpResponseError,
  MintOperationError,
  NetworkError,
  RateLimitError,
} from '@cashu/cashu-ts';
import { MINT_TIMEOUT_MS } from './limits.ts';
import { PaymentFailedError } from './mint-wallet.ts';

/** Says in words why something at a mint failed. */
export async function describeMintProblem(error: unknown, mintUrl: string): Promise<string> {
  const name = formatMint(mintUrl);
  if (error instanceof PaymentFailedError) {
    const reason =
      error.cause === null ? '' : `${await describeMintProblem(error.cause, mintUrl)} `;
    return `The payment was not made. ${reason}The ecash is in this browser again.`;
  }
  if (error instanceof NetworkError) {
    // A response that the page may not read ends as a network error, too.
    const canReach = (mode: RequestMode) =>
      fetch(`${mintUrl}/v1/info`, { mode, signal: AbortSignal.timeout(MINT_TIMEOUT_MS) }).then(
        () => true,
        () => false,
      );
    return !(await canReach('cors')) && (await canReach('no-cors'))
      ? `${name} does not accept requests of web pages (CORS), so only a wallet app can collect there.`
      : `${name} does not answer. Nothing is lost. Try again later.`;
  }
  if (error instanceof RateLimitError) {
    return `${name} limits requests. Nothing is lost. Try again in two minutes.`;
  }
  if (error instanceof MintOperationError) {
    return `${name} refused: ${error.message.slice(0, 200)}`;
  }
  if (error instanceof HttpResponseError) {
    return `${name} failed (status ${error.status}). Nothing is lost. Try again in a minute.`;
  }
  return error instanceof Error ? error.message : String(error);
}

export function formatMint(mintUrl: string): string {
  return mintUrl.replace(/^https?:\/\//, '');
}
