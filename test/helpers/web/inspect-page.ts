import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { AxeResults } from 'axe-core';
import type { Page } from 'playwright-core';

/** Where people find a screenshot of each page and state. Without it, none are written, which saves time. */
const SCREENSHOT_FOLDER = process.env.WEB_SCREENSHOTS;

/** A small and a usual phone, a tablet, and a laptop. In pixels. */
const WIDTHS = [320, 360, 768, 1280];
const HEIGHT = 800;

const AXE_SOURCE = readFileSync(
  createRequire(import.meta.url).resolve('axe-core/axe.min.js'),
  'utf8',
);

/** A script that returns the texts of controls, and of links outside sentences, that are too small for fingers. */
const FIND_SMALL_TARGETS = `
  [...document.querySelectorAll('button, .button, summary, label:has(> input), select, header a, footer a')]
    .filter((element) => element.checkVisibility() && element.getBoundingClientRect().height < 44)
    .map((element) => element.textContent)`;

/** All rules that apply in light colors; in dark ones, only contrasts differ. */
const AXE_RULES = {
  light: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
  dark: { type: 'rule', values: ['color-contrast'] },
};

/**
 * Throws unless a page is accessible (axe) in both color schemes, never scrolls sideways in any width and has buttons and
 * links that are large enough for fingers. Writes screenshots named `NAME-SCHEME-WIDTH.png` to the folder `WEB_SCREENSHOTS`, if given.
 */
export async function inspectPage(page: Page, name: string): Promise<void> {
  const problems: string[] = [];
  await page.waitForLoadState();
  await page.evaluate(AXE_SOURCE);
  for (const colorScheme of ['dark', 'light'] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    if (SCREENSHOT_FOLDER !== undefined || colorScheme === 'light') {
      problems.push(...(await findWidthProblems(page, `${name}-${colorScheme}`)));
    }
    problems.push(...(await findAccessibilityProblems(page, colorScheme)));
  }
  const smallTargets = await page.evaluate<string[]>(FIND_SMALL_TARGETS);
  problems.push(...smallTargets.map((text) => `'${text}' is less than 44 px high`));
  if (problems.length > 0) {
    throw new Error(`problems of ${name}:\n${problems.join('\n')}`);
  }
}

/** Returns the widths in which a page scrolls sideways, in words. */
export async function findWidthProblems(page: Page, name: string): Promise<string[]> {
  const problems: string[] = [];
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: HEIGHT });
    const hiddenPx = await page.evaluate<number>(
      'document.documentElement.scrollWidth - document.documentElement.clientWidth',
    );
    if (hiddenPx > 0) {
      problems.push(`scrolls sideways by ${hiddenPx} px at ${width} px`);
    }
    await saveScreenshot(page, `${name}-${width}`);
  }
  return problems;
}

/** Saves a picture of the whole page, if somebody wants to see it. */
export async function saveScreenshot(page: Page, name: string): Promise<void> {
  if (SCREENSHOT_FOLDER !== undefined) {
    await page.screenshot({ path: `${SCREENSHOT_FOLDER}/${name}.png`, fullPage: true });
  }
}

async function findAccessibilityProblems(
  page: Page,
  colorScheme: keyof typeof AXE_RULES,
): Promise<string[]> {
  const options = { runOnly: AXE_RULES[colorScheme], resultTypes: ['violations'] };
  const violations = await page.evaluate<AxeResults['violations']>(
    `axe.run(document, ${JSON.stringify(options)}).then(({ violations }) => violations)`,
  );
  return violations.map(({ id, help, nodes }) => {
    const places = nodes.map(({ target, failureSummary }) => `${target}: ${failureSummary}`);
    return `${colorScheme}: ${id} (${help})\n${places.join('\n')}`;
  });
}
