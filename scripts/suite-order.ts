import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Files that take half a minute or more. If one of them begins last, the other processors idle meanwhile. */
const LONG =
  /\/(?:purchase-crashes|zap-crashes|durability|watcher|trace|demo|username-odds|nutshell-limits)\.test\.ts$/;

/** Runs the longest files of a suite first. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    return [
      ...sorted.filter(({ moduleId }) => LONG.test(moduleId)),
      ...sorted.filter(({ moduleId }) => !LONG.test(moduleId)),
    ];
  }
}
