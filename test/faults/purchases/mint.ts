import type { ChaosRates, ChaosSwitch } from '../../../demo/test-mint/chaos.ts';

/** Each input of a swap costs a tenth of a sat, so that every redemption costs one. */
export const INPUT_FEE_PPK = 100;

/** Most often, the response is lost after the work was done. */
const SWAPS: ChaosRates = {
  cutAfter: 0.12,
  garbage: 0.03,
  silenceAfter: 0.01,
  late: 0.5,
  error: 0.1,
  cutBefore: 0.02,
  silence: 0.005,
  rateLimit: 0.01,
};

const LOOKS: ChaosRates = {
  cutAfter: 0.06,
  garbage: 0.04,
  late: 0.25,
  error: 0.1,
  cutBefore: 0.04,
  silence: 0.01,
  rateLimit: 0.03,
};

/** A process without keysets sells nothing for five seconds: longer than most processes live here. */
const FACTS: ChaosRates = { cutAfter: 0.01, garbage: 0.01, error: 0.01, late: 0.1 };

/** What goes wrong at the mint. The routes by which payers get their tokens do not fail. */
export const MINT_CHAOS: ChaosSwitch = {
  rates: {},
  ratesByRoute: {
    'POST /v1/swap': SWAPS,
    'POST /v1/checkstate': LOOKS,
    'POST /v1/restore': LOOKS,
    'GET /v1/info': FACTS,
    'GET /v1/keys': FACTS,
    'GET /v1/keys/:id': FACTS,
    'GET /v1/keysets': FACTS,
  },
};
