import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse, stringify } from 'yaml';
import { TestMint } from '../../demo/test-mint.ts';
import { findPromtool, type Promtool } from '../../scripts/promtool.ts';
import { openLog } from '../../src/log.ts';
import { startService } from '../../src/service.ts';
import { eventually } from '../helpers/eventually.ts';
import { type Scrape, scrape } from '../helpers/scrape.ts';
import { createServerDatabase } from '../helpers/server-database.ts';
import { request, TestWallet } from '../helpers/wallet.ts';
import { testConfig } from '../helpers/world.ts';
import { TEST_ZAP_SECRET_KEY, zapQuery, zapRequest } from '../helpers/zap-requests.ts';

/** docs/monitoring: what Prometheus and Grafana are given, beside what a service tells them. */

const FOLDER = path.join(import.meta.dirname, '../../docs/monitoring');
const ALERTS = path.join(FOLDER, 'alerts.yml');
const ALERT_TESTS = path.join(FOLDER, 'alerts.test.yml');

/** Of each target, whatever it says: Prometheus adds them. */
const ADDED_SERIES = ['up'];
const ADDED_LABELS = ['job', 'instance', 'le'];

let promtool: Promtool;
let metrics: Scrape;
let scratch: string;
let rules: { alert: string; expr: string }[];
let expressions: string[];

beforeAll(async () => {
  scratch = await mkdtemp(path.join(tmpdir(), 'nutpost-alerts-'));
  promtool = await findPromtool();
  metrics = await scrapeBusyService();
  rules = parse(await readFile(ALERTS, 'utf8')).groups.flatMap(
    (group: { rules: typeof rules }) => group.rules,
  );
  expressions = [...rules.map(({ expr }) => expr), ...(await dashboardExpressions())];
}, 120_000);

afterAll(async () => {
  await promtool.remove();
  await rm(scratch, { recursive: true, force: true });
});

describe('the metrics of a service on PostgreSQL', () => {
  it('are named and explained as Prometheus wants it', async () => {
    expect(await promtool.run(['check', 'metrics'], metrics.text)).toEqual({
      isWell: true,
      output: '',
    });
  });

  it('tell how the connections to the database are used', () => {
    const name = 'nutpost_database_pool_connections';
    const of = (state: string) => metrics.sum(name, { state }) ?? Number.NaN;
    expect(of('idle') + of('busy')).toBeGreaterThan(0);
    expect(of('idle') + of('busy') + of('not_open')).toBe(10);
    expect(metrics.sum('nutpost_database_pool_waiting')).toBe(0);
  });

  it('have all series and labels that the alerts and the dashboard ask for', () => {
    const asked = expressions.flatMap(seriesOf);
    expect(asked.length).toBeGreaterThan(50);
    const missing = asked.filter(
      ({ name, labels }) => !ADDED_SERIES.includes(name) && !metrics.has(name, labels),
    );
    expect(missing).toEqual([]);
  });
});

describe('the alert rules', () => {
  it('are valid, as is the configuration that reads them', async () => {
    const { isWell, output } = await promtool.run([
      'check',
      'config',
      path.join(FOLDER, 'prometheus.yml'),
    ]);
    expect(output).toContain(`${rules.length} rules found`);
    expect(isWell, output).toBe(true);
  });

  it('are raised when they should be, and not before', async () => {
    const { isWell, output } = await promtool.run(['test', 'rules', ALERT_TESTS]);
    expect(isWell, output).toBe(true);
  });

  it('are each tested', async () => {
    const { tests } = parse(await readFile(ALERT_TESTS, 'utf8')) as {
      tests: { alert_rule_test: { alertname: string; exp_alerts: unknown[] }[] }[];
    };
    const raised = tests
      .flatMap(({ alert_rule_test: cases }) => cases)
      .filter(({ exp_alerts: expected }) => expected.length > 0);
    expect(new Set(raised.map(({ alertname }) => alertname))).toEqual(
      new Set(rules.map(({ alert }) => alert)),
    );
  });
});

describe('the dashboard', () => {
  it('asks in PromQL that is valid', async () => {
    const file = path.join(scratch, 'dashboard.yml');
    const records = (await dashboardExpressions()).map((expr, index) => ({
      record: `panel_${index}`,
      expr: expr.replaceAll('$__rate_interval', '5m'),
    }));
    await writeFile(file, ruleFile(records));
    const { isWell, output } = await promtool.run(['check', 'rules', file]);
    expect(isWell, output).toBe(true);
  });

  it('shows every series of nutpost', async () => {
    const shown = new Set((await dashboardExpressions()).flatMap(seriesOf).map(({ name }) => name));
    const told = [...metrics.names].filter((name) => name.startsWith('nutpost_'));
    const hidden = told.filter((name) => !/_(count|sum)$/.test(name) && !shown.has(name));
    expect(hidden).toEqual([]);
  });
});

function ruleFile(contents: readonly object[]): string {
  return stringify({ groups: [{ name: 'all', rules: contents }] });
}

async function dashboardExpressions(): Promise<string[]> {
  const { panels } = JSON.parse(await readFile(path.join(FOLDER, 'dashboard.json'), 'utf8')) as {
    panels: { targets?: { expr: string }[] }[];
  };
  return panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
}

function seriesOf(expression: string): { name: string; labels: string[] }[] {
  const found = expression.matchAll(/\b(up|(?:nutpost|nodejs|process)_\w+)(?:\{([^}]*)\})?/g);
  return [...found].map(([, name = '', matchers = '']) => ({
    name,
    labels: [...matchers.matchAll(/(\w+)(?:=|!=|=~|!~)"/g)]
      .map(([, label = '']) => label)
      .filter((label) => !ADDED_LABELS.includes(label)),
  }));
}

/** After an invoice, a zap for a relay that is away, and a refusal by the mint. */
async function scrapeBusyService(): Promise<Scrape> {
  await using end = new AsyncDisposableStack();
  const mint = await TestMint.start();
  end.defer(() => mint.close());
  const database = await createServerDatabase();
  end.defer(() => database.drop());
  const settings = {
    DATABASE_URL: database.url,
    METRICS_PORT: '0',
    ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY,
    ZAP_RELAYS: 'ws://127.0.0.1:9',
  };
  const service = await startService(testConfig(mint.url, settings), { log: openLog('silent') });
  end.defer(() => service.stop());

  const wallet = new TestWallet(service.publicOrigin);
  const address = `/.well-known/lnurlp/${wallet.npub}`;
  const { text } = zapRequest({ recipient: wallet.pubkey, amountMsat: 1_000 });
  const { body } = await request(service.url, `${address}?${zapQuery(text, 1_000)}`);
  mint.pay(body.pr);
  await eventually(async () => expect(await wallet.listQuotes()).toHaveLength(1));
  mint.switches.rateLimit = { perMinute: 1 };
  return await eventually(async () => {
    await request(service.url, `${address}?amount=1000`);
    const scraped = await scrape(service);
    expect(scraped.names).toContain('nutpost_mint_limit_requests');
    expect(scraped.sum('nutpost_backlog_fresh')).toBe(1);
    return scraped;
  });
}
