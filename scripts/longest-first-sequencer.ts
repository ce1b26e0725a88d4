import path from 'node:path';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Test files that take at least half a minute. If such a file starts last, the whole suite waits for it. */
const LONG_TEST_FILES: ReadonlySet<string> = new Set([
  'simulate.test.ts',
  'sqlite-durability.test.ts',
  'watcher.test.ts',
  'trace.test.ts',
  'demo.test.ts',
  'username-purchase-edge-cases.test.ts',
  'nutshell-limits.test.ts',
  'documentation-examples.test.ts',
  'office-network.test.ts',
  'network-thread.test.ts',
  'hostile-mint.test.ts',
  'slow-requests.test.ts',
  'collect.test.ts',
  'npm-package.test.ts',
]);

/** Makes vitest run the longest test files first. */
export class LongestFirstSequencer extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isLong = ({ moduleId }: TestSpecification) =>
      LONG_TEST_FILES.has(path.basename(moduleId));
    const sorted = await super.sort(files);
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
  }
}
