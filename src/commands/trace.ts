import { parseArgs } from 'node:util';
import { type Trace, TracePayment } from '../usecases/trace-payment.ts';
import { answer } from './answer.ts';
import { type OperatorCommand, UsageError } from './command.ts';
import { traceToJson } from './trace-json.ts';
import { traceToText } from './trace-text.ts';

/** Longer than any invoice. */
const MAX_SUBJECT_LENGTH = 10_000;

/** `nutpost trace`: where a payment is. */
export const trace: OperatorCommand = {
  name: 'trace',
  usage: `  trace <payment hash | invoice | npub | name | quote id>
           tells where a payment is, or what a recipient's newest payments are; --json for
           programs, --reveal gives the ids of unlocked quotes too, which are as good as money
`,
  read: (args) => {
    const { values, positionals } = parseArgs({
      args,
      options: {
        json: { type: 'boolean', default: false },
        reveal: { type: 'boolean', default: false },
      },
      allowPositionals: true,
    });
    const [subject = '', ...others] = positionals;
    if (subject.trim() === '' || subject.length > MAX_SUBJECT_LENGTH || others.length > 0) {
      throw new UsageError('Give one payment hash, invoice, npub, name or quote id.');
    }
    return async ({ store, clock }) => {
      const found = await new TracePayment(store, clock).trace(subject, values);
      const said = values.json ? { json: traceToJson(found) } : { text: traceToText(found) };
      return answer(isFound(found), said);
    };
  },
};

function isFound({ outcome }: Trace): boolean {
  return outcome === 'payments' || outcome === 'recipient';
}
