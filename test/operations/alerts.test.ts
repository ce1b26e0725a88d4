import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse, stringify } from 'yaml';
import { TestMint } from '../../demo/test-mint.ts';
import { findPromtool, type Promtool } from '../../scripts/promtool.ts';
import { createLogger } from '../../src/log.ts';
import { startService } from '../../src/service.ts';
import { eventually } from '../helpers/eventually.ts';
import { type Scrape, scrapeMetrics } from '../helpers/metrics-scrape.ts';
import { createOperationsDatabase } from '../helpers/postgres-database.ts';
import { testConfig } from '../helpers/test-environment.ts';
import { requestJson, TestWallet } from '../helpers/test-wallet.ts';
import { buildZapQuery, createZapRequest, TEST_ZAP_SECRET_KEY } from '../helpers/zap-requests.ts';

/** docs/monitoring: the configuration of Prometheus and Grafana, compared with a running service. */

const FOLDER = path.join(import.meta.dirname, '../../docs/monitoring');
const ALERTS = path.join(FOLDER, 'alerts.yml');
const ALERT_TESTS = path.join(FOLDER, 'alerts.test.yml');

/** Labels and series that Prometheus adds to each target. */
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
  it('follow Prometheus’ conventions for names and help texts', async () => {
    expect(await promtool.run(['check', 'metrics'], metrics.text)).toEqual({
      isWell: true,
      output: '',
    });
  });

  it('report how database connections are used', () => {
    const name = 'nutpost_database_pool_connections';
    const of = (state: string) => metrics.sumSeries(name, { state }) ?? Number.NaN;
    expect(of('idle') + of('busy')).toBeGreaterThan(0);
    expect(of('idle') + of('busy') + of('not_open')).toBe(10);
    expect(metrics.sumSeries('nutpost_database_pool_waiting')).toBe(0);
  });

  it('have all series and labels that the alerts and the dashboard query', () => {
    const asked = expressions.flatMap(seriesOf);
    expect(asked.length).toBeGreaterThan(50);
    const missing = asked.filter(
      ({ name, labels }) => !ADDED_SERIES.includes(name) && !metrics.hasSeries(name, labels),
    );
    expect(missing).toEqual([]);
  });
});

describe('the alert rules', () => {
  it('are valid, and so is the configuration that loads them', async () => {
    const { isWell, output } = await promtool.run([
      'check',
      'config',
      path.join(FOLDER, 'prometheus.yml'),
    ]);
    expect(output).toContain(`${rules.length} rules found`);
    expect(isWell, output).toBe(true);
  });

  it('fire when they should, and not earlier', async () => {
    const { isWell, output } = await promtool.run(['test', 'rules', ALERT_TESTS]);
    expect(isWell, output).toBe(true);
  });

  it('each have a test', async () => {
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
  it('has valid PromQL queries', async () => {
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
    const told = [...metrics.metricNames].filter((name) => name.startsWith('nutpost_'));
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

/** After an invoice, a zap for an unreachable relay, and a rejection by the mint. */
async function scrapeBusyService(): Promise<Scrape> {
  await using end = new AsyncDisposableStack();
  const mint = await TestMint.start();
  end.defer(() => mint.close());
  const database = await createOperationsDatabase();
  end.defer(() => database.drop());
  const settings = {
    DATABASE_URL: database.url,
    METRICS_PORT: '0',
    ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY,
    ZAP_RELAYS: 'ws://127.0.0.1:9',
  };
  const service = await startService(testConfig(mint.url, settings), {
    log: createLogger('silent'),
  });
  end.defer(() => service.stop());

  const wallet = new TestWallet(service.publicOrigin);
  const address = `/.well-known/lnurlp/${wallet.npub}`;
  const { text } = createZapRequest({ recipient: wallet.pubkey, amountMsat: 1_000 });
  const { body } = await requestJson(service.url, `${address}?${buildZapQuery(text, 1_000)}`);
  mint.pay(body.pr);
  await eventually(async () => expect(await wallet.listQuotes()).toHaveLength(1));
  mint.switches.rateLimit = { requestsPerWindow: 1 };
  return await eventually(async () => {
    await requestJson(service.url, `${address}?amount=1000`);
    const scraped = await scrapeMetrics(service);
    expect(scraped.metricNames).toContain('nutpost_mint_limit_requests');
    expect(scraped.sumSeries('nutpost_backlog_fresh')).toBe(1);
    return scraped;
  });
}
