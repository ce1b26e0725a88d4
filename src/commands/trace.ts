import { parseArgs } from 'node:util';
import { type Trace, TracePayment } from '../usecases/trace-payment.ts';
import { type CommandResult, type OperatorCommand, UsageError } from './command.ts';
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
      return values.json ? asJson(found) : asText(found);
    };
  },
};

function isFound({ outcome }: Trace): boolean {
  return outcome === 'payments' || outcome === 'recipient';
}

function asJson(found: Trace): CommandResult {
  const stdout = `${JSON.stringify(traceToJson(found), null, 2)}\n`;
  return { exitCode: isFound(found) ? 0 : 1, stdout, stderr: '' };
}

function asText(found: Trace): CommandResult {
  const text = traceToText(found);
  return isFound(found)
    ? { exitCode: 0, stdout: text, stderr: '' }
    : { exitCode: 1, stdout: '', stderr: text };
}
