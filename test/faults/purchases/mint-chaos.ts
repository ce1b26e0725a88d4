import type { ChaosConfig, ChaosRates } from '../../../demo/test-mint/chaos.ts';

/** The fee is 0.1 sat per input. Each redemption costs 1 sat, because the mint rounds the sum up. */
export const INPUT_FEE_PPK = 100;

/** Most of these faults lose or delay the response after the mint has swapped the proofs. */
const SWAP_CHAOS: ChaosRates = {
  cutAfter: 0.12,
  garbage: 0.03,
  silenceAfter: 0.01,
  late: 0.5,
  error: 0.1,
  cutBefore: 0.02,
  silence: 0.005,
  rateLimit: 0.01,
};

const CHECK_AND_RESTORE_CHAOS: ChaosRates = {
  cutAfter: 0.06,
  garbage: 0.04,
  late: 0.25,
  error: 0.1,
  cutBefore: 0.04,
  silence: 0.01,
  rateLimit: 0.03,
};

/**
 * Failures are rare. If a process cannot load the keysets, it sells no names for five seconds, and most processes
 * are killed before then.
 */
const METADATA_CHAOS: ChaosRates = { cutAfter: 0.01, garbage: 0.01, error: 0.01, late: 0.1 };

/** Routes with which buyers mint their tokens have no faults. */
export const MINT_CHAOS: ChaosConfig = {
  rates: {},
  ratesByRoute: {
    'POST /v1/swap': SWAP_CHAOS,
    'POST /v1/checkstate': CHECK_AND_RESTORE_CHAOS,
    'POST /v1/restore': CHECK_AND_RESTORE_CHAOS,
    'GET /v1/info': METADATA_CHAOS,
    'GET /v1/keys': METADATA_CHAOS,
    'GET /v1/keys/:id': METADATA_CHAOS,
    'GET /v1/keysets': METADATA_CHAOS,
  },
};
