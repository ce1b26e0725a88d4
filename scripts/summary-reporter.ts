import type { Reporter, TestModule } from 'vitest/node';

/**
 * Prints `N passed, N failed` as the last line. An error outside a test, for example in a hook, counts as a failed
 * test. Makes the run fail if no test ran, for example because all tests were skipped.
 */
export class SummaryReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    let passed = 0;
    let failed = unhandledErrors.length;
    for (const module of modules) {
      failed += module.errors().length;
      for (const suite of module.children.allSuites()) {
        failed += suite.errors().length;
      }
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        passed += state === 'passed' ? 1 : 0;
        failed += state === 'failed' ? 1 : 0;
      }
    }
    console.log(`${passed} passed, ${failed} failed`);
    if (passed + failed === 0) {
      console.error('No test ran.');
      process.exitCode = 1;
    }
  }
}
