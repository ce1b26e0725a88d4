import { parseArgs } from 'node:util';
import { MAX_USERNAME_LENGTH, MIN_USERNAME_LENGTH } from '../domain/limits.ts';
import { parseUsername } from '../domain/username.ts';
import { ManageNames, type NameChange } from '../usecases/manage-names.ts';
import { answer } from './answer.ts';
import {
  type CommandParts,
  type CommandResult,
  type OperatorCommand,
  UsageError,
} from './command.ts';
import { nameChangeToJson, shownNameToJson } from './name-json.ts';
import { nameChangeToText, shownNameToText } from './name-text.ts';

/** `nutpost name`: who has a name, and who can. */
export const name: OperatorCommand = {
  name: 'name',
  usage: `  name show <name>
           tells who has a name, or whether it can be had
  name reserve <name> [--in-use]
           keeps a name from everybody; --in-use takes it away from whoever uses it
  name release <name> [--in-use]
           frees a name; --json for programs, as with the others
`,
  read: (args) => {
    const { values, positionals } = parseArgs({
      args,
      options: {
        json: { type: 'boolean', default: false },
        'in-use': { type: 'boolean' },
      },
      allowPositionals: true,
    });
    const [action = '', ...which] = positionals;
    const options = { inUse: values['in-use'] ?? false };
    switch (action) {
      case 'show': {
        if (values['in-use'] !== undefined) {
          throw new UsageError('--in-use is for reserving and releasing.');
        }
        const wanted = readName(which);
        return async (parts) => {
          const shown = await manager(parts).show(wanted);
          return answer(
            true,
            values.json ? { json: shownNameToJson(shown) } : { text: shownNameToText(shown) },
          );
        };
      }
      case 'reserve': {
        const wanted = readName(which);
        return async (parts) =>
          answerChange(await manager(parts).reserve(wanted, options), 'reserve', values.json);
      }
      case 'release': {
        const wanted = readName(which);
        return async (parts) =>
          answerChange(await manager(parts).release(wanted, options), 'release', values.json);
      }
      default:
        throw new UsageError('Give show, reserve or release, and one name.');
    }
  },
};

function readName([text = '', ...others]: string[]): string {
  if (text.trim() === '' || others.length > 0) {
    throw new UsageError('Give one name.');
  }
  const wanted = parseUsername(text.trim());
  if (wanted === null) {
    throw new UsageError(
      `This can be nobody’s name: one has ${MIN_USERNAME_LENGTH} to ${MAX_USERNAME_LENGTH} letters` +
        ' (a to z) and digits, and does not begin with npub1.',
    );
  }
  return wanted;
}

function manager({ store, clock, reservedNames }: CommandParts): ManageNames {
  return new ManageNames({ store, clock, reservedNames });
}

function answerChange(
  change: NameChange,
  action: 'reserve' | 'release',
  asJson: boolean,
): CommandResult {
  return answer(
    isAsWanted(change),
    asJson ? { json: nameChangeToJson(change) } : { text: nameChangeToText(change, action) },
  );
}

/** Whether the name stands now as it was to, be it changed or not. */
function isAsWanted({ outcome }: NameChange): boolean {
  switch (outcome) {
    case 'reserved':
    case 'released':
    case 'already_reserved':
    case 'already_free':
      return true;
    case 'in_use':
    case 'pending':
    case 'on_list':
    case 'overtaken':
      return false;
  }
}
