import { describe, expect, it } from 'vitest';
import { readPayer } from '../../../../../../src/http/web/browser/account/payments.ts';

const PUBKEY = '7e'.repeat(32);
const NPUB = 'npub10el8uln70el8uln70el8uln70el8uln70el8uln70el8uln70elqm6360c';

describe('readPayer', () => {
  it('returns the key and the text of a zap', () => {
    const zapRequest = JSON.stringify({ pubkey: PUBKEY, content: 'great post' });
    expect(readPayer({ zapRequest })).toEqual({ comment: 'great post', npub: NPUB });
  });

  it('prefers the comment to the text of the zap', () => {
    const zapRequest = JSON.stringify({ pubkey: PUBKEY, content: 'great post' });
    expect(readPayer({ zapRequest, comment: 'hi' })).toEqual({ comment: 'hi', npub: NPUB });
  });

  it.each(['', 'no json', 'null', '[]', '{}', '{"pubkey":"npub1","content":5}'])(
    'ignores the invalid zap request %j',
    (zapRequest) => {
      expect(readPayer({ zapRequest })).toEqual({ comment: '', npub: null });
    },
  );
});
