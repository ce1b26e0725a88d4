import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import type { AxeResults } from 'axe-core';
import type { Page } from 'playwright-core';

const SCREENSHOT_FOLDER = path.resolve('test-results/web');

const COLOR_SCHEMES = ['light', 'dark'] as const;

/** A small phone, a tablet, and a laptop. In pixels. */
const WIDTHS = [320, 768, 1280];
const HEIGHT = 800;

const AXE_SOURCE = readFileSync(
  createRequire(import.meta.url).resolve('axe-core/axe.min.js'),
  'utf8',
);

const AXE_OPTIONS = {
  runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
};

/**
 * Throws unless a page is accessible (axe) and never scrolls sideways, in both colour schemes and in three widths.
 * Writes screenshots to `test-results/web/NAME-SCHEME-WIDTH.png`.
 */
export async function inspectPage(page: Page, name: string): Promise<void> {
  const problems: string[] = [];
  for (const colorScheme of COLOR_SCHEMES) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: HEIGHT });
      const file = `${name}-${colorScheme}-${width}.png`;
      await page.screenshot({ path: path.join(SCREENSHOT_FOLDER, file), fullPage: true });
      const hiddenPx = await page.evaluate<number>(
        'document.documentElement.scrollWidth - document.documentElement.clientWidth',
      );
      if (hiddenPx > 0) {
        problems.push(`scrolls sideways by ${hiddenPx} px at ${width} px`);
      }
    }
    problems.push(...(await findAccessibilityProblems(page, colorScheme)));
  }
  if (problems.length > 0) {
    throw new Error(`problems of ${name}:\n${problems.join('\n')}`);
  }
}

async function findAccessibilityProblems(page: Page, colorScheme: string): Promise<string[]> {
  await page.evaluate(AXE_SOURCE);
  const { violations } = await page.evaluate<AxeResults>(
    `axe.run(document, ${JSON.stringify(AXE_OPTIONS)})`,
  );
  return violations.map(({ id, help, nodes }) => {
    const places = nodes.map(({ target, failureSummary }) => `${target}: ${failureSummary}`);
    return `${colorScheme}: ${id} (${help})\n${places.join('\n')}`;
  });
}
