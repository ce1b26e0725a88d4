import type { ChaosConfig, ChaosRates } from '../../../demo/test-mint/chaos.ts';

/** A fee of 0.1 sat per input, which rounds up to 1 sat for each redemption. */
export const INPUT_FEE_PPK = 100;

/** Mostly lost or late responses after the mint has handled the request. */
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

const CHECK_CHAOS: ChaosRates = {
  cutAfter: 0.06,
  garbage: 0.04,
  late: 0.25,
  error: 0.1,
  cutBefore: 0.04,
  silence: 0.01,
  rateLimit: 0.03,
};

/** A process without keysets sells no names for five seconds, which is longer than most process lifetimes. */
const METADATA_CHAOS: ChaosRates = { cutAfter: 0.01, garbage: 0.01, error: 0.01, late: 0.1 };

/** Faults on every route except those that buyers use to mint their tokens. */
export const MINT_CHAOS: ChaosConfig = {
  rates: {},
  ratesByRoute: {
    'POST /v1/swap': SWAP_CHAOS,
    'POST /v1/checkstate': CHECK_CHAOS,
    'POST /v1/restore': CHECK_CHAOS,
    'GET /v1/info': METADATA_CHAOS,
    'GET /v1/keys': METADATA_CHAOS,
    'GET /v1/keys/:id': METADATA_CHAOS,
    'GET /v1/keysets': METADATA_CHAOS,
  },
};
