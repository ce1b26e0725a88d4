import type { CommandResult } from './command.ts';

/**
 * What a command says, to a program or to a person. Programs read standard output, whatever it is;
 * people are told there what was done, and on standard error what could not be.
 */
export function answer(isDone: boolean, said: { json: object } | { text: string }): CommandResult {
  const exitCode = isDone ? 0 : 1;
  if ('json' in said) {
    return { exitCode, stdout: `${JSON.stringify(said.json, null, 2)}\n`, stderr: '' };
  }
  return isDone
    ? { exitCode, stdout: said.text, stderr: '' }
    : { exitCode, stdout: '', stderr: said.text };
}
