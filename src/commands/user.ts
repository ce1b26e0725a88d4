import { parseArgs } from 'node:util';
import { readUserSubject } from '../domain/user-subject.ts';
import {
  type BlockChange,
  ManageUsers,
  type ShownUser,
  type UserSubject,
} from '../usecases/manage-users.ts';
import { answer } from './answer.ts';
import { type CommandResult, type OperatorCommand, UsageError } from './command.ts';
import { blockChangeToJson, shownUserToJson } from './user-json.ts';
import { blockChangeToText, shownUserToText } from './user-text.ts';

/** A sentence or two, for the operator's own memory. */
const MAX_REASON_LENGTH = 500;

/** Such as the end of a line: a reason is shown in one. */
const CONTROL_CHARACTER = /\p{Cc}/u;

/** `nutpost user`: what is kept of somebody, and whether payers may find them. */
export const user: OperatorCommand = {
  name: 'user',
  usage: `  user show <npub | key | name>
           tells what is kept of a user
  user block <npub | key | name> [--reason <text>]
           keeps payers from a user: no new invoices; what is there already stays open
  user unblock <npub | key | name>
           ends that; --json for programs, as with the others
`,
  read: (args) => {
    const { values, positionals } = parseArgs({
      args,
      options: {
        json: { type: 'boolean', default: false },
        reason: { type: 'string' },
      },
      allowPositionals: true,
    });
    const [action = '', ...whom] = positionals;
    if (values.reason !== undefined && action !== 'block') {
      throw new UsageError('A --reason is for blocking.');
    }
    switch (action) {
      case 'show': {
        const subject = readSubject(whom);
        return async ({ store, clock }) =>
          answerShown(await new ManageUsers(store, clock).show(subject), values.json);
      }
      case 'block': {
        const subject = readSubject(whom);
        const reason = values.reason === undefined ? null : readReason(values.reason);
        return async ({ store, clock }) =>
          answerChange(await new ManageUsers(store, clock).block(subject, reason), values.json);
      }
      case 'unblock': {
        const subject = readSubject(whom);
        return async ({ store, clock }) =>
          answerChange(await new ManageUsers(store, clock).unblock(subject), values.json);
      }
      default:
        throw new UsageError('Give show, block or unblock, and one npub, key or name.');
    }
  },
};

function readSubject([text = '', ...others]: string[]): UserSubject {
  if (text.trim() === '' || others.length > 0) {
    throw new UsageError('Give one npub, key (hex) or name.');
  }
  const subject = readUserSubject(text);
  switch (subject.kind) {
    case 'invalid_npub':
      throw new UsageError('This is no npub and no key: it may be cut off or mistyped.');
    case 'unknown':
      throw new UsageError('This is no npub, no key (hex) and can be nobody’s name.');
    case 'pubkey':
    case 'name':
      return subject;
  }
}

function readReason(text: string): string {
  const reason = text.trim();
  if (reason === '' || reason.length > MAX_REASON_LENGTH || CONTROL_CHARACTER.test(reason)) {
    throw new UsageError(`Give a reason in one line of at most ${MAX_REASON_LENGTH} characters.`);
  }
  return reason;
}

function answerShown(shown: ShownUser, asJson: boolean): CommandResult {
  const said = asJson ? { json: shownUserToJson(shown) } : { text: shownUserToText(shown) };
  return answer(shown.outcome === 'user', said);
}

function answerChange(change: BlockChange, asJson: boolean): CommandResult {
  const said = asJson ? { json: blockChangeToJson(change) } : { text: blockChangeToText(change) };
  return answer(change.outcome !== 'name_not_in_use', said);
}
