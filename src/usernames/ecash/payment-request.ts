import { PaymentRequest } from '@cashu/cashu-ts';

/**
 * Encodes a request to be paid once, in sat, at one mint, by a token in the next request (NUT-18,
 * NUT-24). It names no transport: that is what "in band" means, and wallets refuse any other here.
 *
 * @param terms.id never given before
 * @param terms.amountSat positive
 * @returns `creqA...`, in the alphabet for urls and without padding: cdk's wallet takes no other
 *   alphabet, and all take it unpadded
 */
export function encodePaymentRequest(terms: {
  id: string;
  amountSat: number;
  mintUrl: string;
  description: string;
}): string {
  const { id, amountSat, mintUrl, description } = terms;
  const isSingleUse = true;
  const mints = [mintUrl];
  return new PaymentRequest(undefined, id, amountSat, 'sat', mints, description, isSingleUse)
    .toEncodedCreqA()
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '');
}
