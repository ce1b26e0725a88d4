import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Files that take half a minute or more. If one of them started last, the other workers would be idle. */
const LONG_TEST_FILES =
  /\/(?:purchase-crashes|zap-crashes|durability|watcher|trace|demo|username-purchase-edge-cases|nutshell-limits)\.test\.ts$/;

/** Runs the longest files of a suite first. */
export class LongestFirstSequencer extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    return [
      ...sorted.filter(({ moduleId }) => LONG_TEST_FILES.test(moduleId)),
      ...sorted.filter(({ moduleId }) => !LONG_TEST_FILES.test(moduleId)),
    ];
  }
}
