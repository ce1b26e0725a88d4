/**
 * Mints that issue the ecash of a paid quote after its expiry, as NUT-04 requires. Nutshell has code that refuses, but in
 * these versions, which were tested, it has no effect, because the mint does not store the expiry.
 */
const VERSIONS = [/^cdk-mintd\//, /^Nutshell\/0\.(20\.[23]|21\.0)$/];

/** {@link VERSIONS} in words. */
export const ISSUING_VERSIONS = 'cdk-mintd and Nutshell 0.20.2, 0.20.3 and 0.21.0';

/** @param version from the mint's info (NUT-06) */
export function isKnownToIssueAfterExpiry(version: string | null): boolean {
  return version !== null && VERSIONS.some((pattern) => pattern.test(version));
}
