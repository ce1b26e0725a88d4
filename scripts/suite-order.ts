import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Files that take a minute or more: one of them that begins last runs alone while the other processors idle. */
const LONG = /\/(?:purchase-crashes|zap-crashes|trace|durability|nutshell-limits)\.test\.ts$/;

/** The order of a suite's files: those that take longest first, and all others as ever. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    return [
      ...sorted.filter(({ moduleId }) => LONG.test(moduleId)),
      ...sorted.filter(({ moduleId }) => !LONG.test(moduleId)),
    ];
  }
}
