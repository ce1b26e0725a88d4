import type { MintStyle } from './switches.ts';

/** An HTTP answer, ready to be sent. */
export interface HttpAnswer {
  status: number;
  headers: Record<string, string>;
  body: string;
}

/** Something in a request body that is not as it must be. */
interface BodyIssue {
  /** Where, from the body on. */
  path: PropertyKey[];
  message: string;
  /** Whether the value is missing rather than wrong. */
  isMissing: boolean;
}

/** Why the mint does not do what was asked. */
export type RefusalReason =
  | { kind: keyof typeof CODED_REASONS; detail?: string }
  | { kind: 'malformed_json'; message: string }
  | { kind: 'invalid_body'; issues: BodyIssue[] }
  | { kind: 'rate_limited'; retryAfterSeconds?: number | undefined }
  | { kind: 'not_found' }
  | { kind: 'words_refused'; status: number; words: string }
  | { kind: 'busy' };

/** A refusal on its way to the edge, which renders it in the mint's style. */
export class MintRefusal extends Error {
  override readonly name = 'MintRefusal';
  readonly reason: RefusalReason;

  constructor(reason: RefusalReason) {
    super(reason.kind);
    this.reason = reason;
  }
}

/** Renders a refusal as the real mint of this style answers it. */
export function renderRefusal(reason: RefusalReason, style: MintStyle): HttpAnswer {
  switch (reason.kind) {
    case 'malformed_json':
      return style === 'cdk'
        ? textAnswer(400, `Failed to parse the request body as JSON: ${reason.message}`)
        : jsonAnswer(422, {
            detail: [{ type: 'json_invalid', loc: ['body', 0], msg: 'JSON decode error' }],
          });
    case 'invalid_body':
      return style === 'cdk' ? cdkInvalidBody(reason.issues) : nutshellInvalidBody(reason.issues);
    case 'rate_limited': {
      const answer = jsonAnswer(429, { detail: 'Rate limit exceeded.' });
      if (reason.retryAfterSeconds !== undefined) {
        answer.headers['retry-after'] = String(reason.retryAfterSeconds);
      }
      return answer;
    }
    case 'not_found':
      return style === 'cdk' ? textAnswer(404, '') : jsonAnswer(404, { detail: 'Not Found' });
    case 'words_refused': {
      const { status, words } = reason;
      return jsonAnswer(status, { detail: `memo not allowed: ${words}`, code: CDK_UNKNOWN_ERROR });
    }
    case 'busy':
      return jsonAnswer(500, { detail: 'failed to acquire database lock', code: 0 });
    default: {
      const [code, detail] = CODED_REASONS[reason.kind][style];
      return jsonAnswer(400, { detail: reason.detail ?? detail, code });
    }
  }
}

/** An answer in JSON. */
export function jsonAnswer(status: number, value: unknown): HttpAnswer {
  return {
    status,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(value),
  };
}

function textAnswer(status: number, body: string): HttpAnswer {
  return { status, headers: { 'content-type': 'text/plain; charset=utf-8' }, body };
}

function nutshellInvalidBody(issues: BodyIssue[]): HttpAnswer {
  return jsonAnswer(422, {
    detail: issues.map(({ path, message, isMissing }) => ({
      type: isMissing ? 'missing' : 'value_error',
      loc: ['body', ...path.map(String)],
      msg: isMissing ? 'Field required' : message,
    })),
  });
}

function cdkInvalidBody(issues: BodyIssue[]): HttpAnswer {
  const wrong = issues.find(({ isMissing }) => !isMissing);
  return wrong === undefined
    ? jsonAnswer(400, { code: CDK_UNKNOWN_ERROR, detail: 'Invalid payment method' })
    : textAnswer(
        422,
        'Failed to deserialize the JSON body into the target type: ' +
          `${wrong.path.map(String).join('.')}: ${wrong.message}`,
      );
}

/** What cdk says where the list of error codes has none. */
const CDK_UNKNOWN_ERROR = 50000;

/** Codes of the NUTs (error_codes.md) and the texts of the two mints. */
const CODED_REASONS = {
  unknown_quote: { nutshell: [0, 'quote not found'], cdk: [CDK_UNKNOWN_ERROR, 'Unknown quote'] },
  unit_unsupported: {
    nutshell: [10000, 'unit not supported in any keyset.'],
    cdk: [11013, 'Unit unsupported'],
  },
  pubkey_invalid: inBoth(CDK_UNKNOWN_ERROR, 'Invalid payment method'),
  description_unsupported: inBoth(0, 'Backend does not support descriptions.'),
  description_too_long: inBoth(CDK_UNKNOWN_ERROR, 'Request field too large'),
  proof_invalid: inBoth(10001, 'Proof verification failed'),
  witness_missing: {
    nutshell: [0, 'Witness is missing for p2pk signature'],
    cdk: [20008, 'Witness signatures not provided. P2PK signatures are required but not provided'],
  },
  witness_unexpected: inBoth(11000, 'witness data not allowed without a spending condition.'),
  conditions_unmet: {
    nutshell: [11000, 'signature threshold not met. 0 < 1.'],
    cdk: [20008, 'P2PK spend conditions are not met'],
  },
  proof_spent: inBoth(11001, 'Token already spent.'),
  proof_pending: { nutshell: [11002, 'proofs are pending'], cdk: [11002, 'Token Pending'] },
  output_already_signed: inBoth(11003, 'outputs have already been signed before.'),
  output_pending: { nutshell: [11004, 'outputs are pending'], cdk: [11008, 'Duplicate outputs'] },
  unbalanced: inBoth(11005, 'Transaction is not balanced'),
  inputs_short: {
    nutshell: [11000, 'not enough inputs provided for melt.'],
    cdk: [11005, 'Transaction inputs should equal outputs less fee'],
  },
  amount_out_of_range: inBoth(11006, 'Amount outside of limit range'),
  duplicate_inputs: inBoth(11007, 'Duplicate inputs provided'),
  duplicate_outputs: inBoth(11008, 'Duplicate outputs provided'),
  duplicate_quotes: inBoth(11016, 'Duplicate quote IDs'),
  batch_too_large: inBoth(11017, 'Max batch size exceeded'),
  keyset_unknown: inBoth(12001, 'Keyset is not known'),
  keyset_inactive: { nutshell: [11000, 'keyset id inactive.'], cdk: [12002, 'Inactive Keyset'] },
  output_invalid: inBoth(0, 'invalid blinded message'),
  quote_unpaid: inBoth(20001, 'quote not paid'),
  quote_issued: inBoth(20002, 'quote already issued'),
  minting_disabled: inBoth(20003, 'Minting is disabled'),
  quote_pending: inBoth(20005, 'quote is pending'),
  quote_expired: inBoth(20007, 'quote expired'),
  signature_invalid: inBoth(20008, 'Signature for mint request invalid'),
  melting_disabled: {
    nutshell: [10000, 'Melting with bol11 is disabled.'],
    cdk: [20003, 'Melting is disabled'],
  },
  invoice_invalid: inBoth(0, 'Bech32 is not valid.'),
  invoice_amountless: {
    nutshell: [11000, 'invoice has no amount.'],
    cdk: [11011, 'Invoice Amount undefined'],
  },
  invoice_taken: {
    nutshell: [11000, 'Melt quote already paid or pending.'],
    cdk: [20006, 'Invoice already paid or pending'],
  },
  mint_quote_paid: {
    nutshell: [11000, 'mint quote already paid'],
    cdk: [20006, 'Invoice already paid.'],
  },
  melt_paid: {
    nutshell: [11000, 'melt quote is not unpaid: paid'],
    cdk: [20006, 'Quote is already paid'],
  },
  melt_pending: {
    nutshell: [11000, 'melt quote is not unpaid: pending'],
    cdk: [20005, 'Quote pending'],
  },
  payment_failed: {
    nutshell: [20004, 'Lightning payment failed.'],
    cdk: [20004, 'Payment failed'],
  },
} satisfies Record<string, Record<MintStyle, readonly [code: number, detail: string]>>;

function inBoth(code: number, detail: string): Record<MintStyle, readonly [number, string]> {
  return { nutshell: [code, detail], cdk: [code, detail] };
}
