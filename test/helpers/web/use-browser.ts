import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Page,
} from 'playwright-core';
import { afterEach, beforeAll, expect } from 'vitest';
import { requireChromium } from '../../../scripts/chromium.ts';

/** Hostile texts call `__xss` if a page runs them. */
const INIT_SCRIPT = `
  globalThis.__xss = (source) => console.error('a hostile text ran: ' + source);
  document.addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) =>
    console.error('CSP violation: ' + violatedDirective + ' blocks ' + blockedURI),
  );`;

const FAILED_RESPONSE =
  /^Failed to load resource: (?:the server responded with a status of (\d+)|net::ERR_INTERNET_DISCONNECTED)/;
const NSEC = /nsec1[02-9ac-hj-np-z]{20}/i;

export interface OpenPageOptions extends BrowserContextOptions {
  /** Statuses of failed requests that the test expects; 0 if the browser is offline. */
  expectedStatuses?: readonly number[];
  relays?: readonly string[];
  /** Origins of mints to which the page may send requests. */
  mints?: readonly string[];
  /** Errors on the console that the test expects. */
  expectedErrors?: RegExp;
  /** The browser context of a page that was opened before, with what it has stored. */
  context?: BrowserContext;
  prepare?: (page: Page) => Promise<unknown>;
}

export interface TestBrowser {
  /** Loads a page in a browser context of its own, which is closed after the test. */
  openPage(url: string, options?: OpenPageOptions): Promise<Page>;
  /** What the pages of this test did although no page may do it, in words. */
  readonly problems: string[];
}

/** For all files in this process, with which they end. The key says whether it shows notifications. */
const launches = new Map<boolean, Promise<Browser>>();

/**
 * Starts Chromium for the tests of a file. A test fails if one of its pages sends a request to another origin, violates
 * its Content Security Policy, logs an error, does not catch an error, sets a cookie, stores anything but a session, or
 * sends an nsec.
 *
 * @param options.showsNotifications whether the browser must show notifications, which takes more processor time
 */
export function useBrowser({ showsNotifications = false } = {}): TestBrowser {
  let browser: Browser;
  const contexts: BrowserContext[] = [];
  const problems: string[] = [];

  beforeAll(async () => {
    browser = await launches.getOrInsertComputed(showsNotifications, launchChromium);
  });

  afterEach(async () => {
    for (const context of contexts.splice(0)) {
      problems.push(...(await findStoredSecrets(context)));
      await context.close();
    }
    expect(problems.splice(0)).toEqual([]);
  });

  return {
    problems,
    openPage: async (url, openOptions = {}) => {
      const {
        expectedStatuses = [],
        relays = [],
        mints = [],
        expectedErrors,
        ...others
      } = openOptions;
      const { prepare, context: oldContext, ...options } = others;
      const { origin } = new URL(url);
      const context = oldContext ?? (await browser.newContext({ locale: 'en-GB', ...options }));
      if (!contexts.includes(context)) {
        contexts.push(context);
        // Less than vitest's timeout, so that a failing test names what it waited for.
        context.setDefaultTimeout(45_000);
        await context.addInitScript(INIT_SCRIPT);
      }
      const page = await context.newPage();
      const allowedOrigins = [origin, origin.replace('http', 'ws'), ...relays, ...mints];
      watchPage(page, { allowedOrigins, expectedStatuses, expectedErrors, problems });
      await prepare?.(page);
      await page.goto(url);
      return page;
    },
  };
}

async function launchChromium(showsNotifications: boolean): Promise<Browser> {
  return chromium.launch({
    executablePath: await requireChromium(showsNotifications),
    args: [
      // The sandbox does not start as root, and containers often have a small /dev/shm.
      ...['--no-sandbox', '--disable-dev-shm-usage'],
      // Nothing leaves the machine. Routes for this would disable the cache, and delay each request.
      '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1',
    ],
  });
}

interface PageRules {
  allowedOrigins: readonly string[];
  expectedStatuses: readonly number[];
  expectedErrors: RegExp | undefined;
  problems: string[];
}

function watchPage(page: Page, rules: PageRules): void {
  const { allowedOrigins, expectedStatuses, expectedErrors, problems } = rules;
  const checkOrigin = (url: string) => {
    const { protocol, origin } = new URL(url);
    const isLocal = protocol === 'data:' || protocol === 'blob:' || protocol === 'about:';
    if (!isLocal && !allowedOrigins.includes(origin)) {
      problems.push(`request to another origin: ${url}`);
    }
  };
  page.on('request', (request) => {
    checkOrigin(request.url());
    const headers = Object.values(request.headers()).join('\n');
    if (NSEC.test(request.url() + headers + (request.postData() ?? ''))) {
      problems.push(`request with an nsec: ${request.url()}`);
    }
  });
  page.on('websocket', (socket) => {
    checkOrigin(socket.url());
    socket.on('framesent', ({ payload }) => {
      if (NSEC.test(String(payload))) {
        problems.push(`WebSocket message with an nsec to ${socket.url()}`);
      }
    });
  });
  page.on('pageerror', (error) => problems.push(`uncaught error: ${error.message}`));
  page.on('dialog', (dialog) => {
    problems.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('console', (message) => {
    const failure = FAILED_RESPONSE.exec(message.text());
    const isExpected =
      (failure !== null && expectedStatuses.includes(Number(failure[1] ?? 0))) ||
      expectedErrors?.test(message.text());
    if (message.type() === 'error' && !isExpected) {
      problems.push(`error on the console: ${message.text()} (${message.location().url})`);
    }
  });
}

async function findStoredSecrets(context: BrowserContext): Promise<string[]> {
  const { cookies, origins } = await context.storageState();
  const tabs = await Promise.all(
    context.pages().map((page) => page.evaluate<Record<string, string>>('({ ...sessionStorage })')),
  );
  return [
    ...cookies.map(({ name }) => `cookie: ${name}`),
    ...origins.map(({ origin }) => `localStorage of ${origin}`),
    // Pages store nothing but the session, until the user signs out.
    ...tabs
      .map(({ session = '{}', ...others }) => [Object.keys(JSON.parse(session)), others])
      .map((stored) => JSON.stringify(stored))
      .filter((stored) => !['[[],{}]', '[["token","pubkey"],{}]'].includes(stored))
      .map((stored) => `sessionStorage: ${stored}`),
  ];
}
