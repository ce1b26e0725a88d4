import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { parse, stringify } from 'yaml';
import { TestMint } from '../../demo/test-mint.ts';
import { installDebianPackages, pathExists, runProgram } from '../../scripts/debian-packages.ts';
import { findPromtool, type Promtool } from '../../scripts/promtool.ts';
import { createLogger } from '../../src/log.ts';
import { startService } from '../../src/service.ts';
import { createOperationsDatabase } from '../helpers/database/temporary-postgres-database.ts';
import { eventually } from '../helpers/eventually.ts';
import { RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import {
  buildZapQuery,
  createZapRequest,
  TEST_ZAP_SECRET_KEY,
} from '../helpers/relays/zap-requests.ts';
import { type MetricsScrape, scrapeMetrics } from '../helpers/service/metrics-scrape.ts';
import { createTestConfig } from '../helpers/service/test-environment.ts';

/** Compares the Prometheus and Grafana configuration in docs/monitoring with the metrics of a running service. */

const MONITORING_DIR = path.join(import.meta.dirname, '../../docs/monitoring');
const ALERT_RULES_FILE = path.join(MONITORING_DIR, 'alerts.yml');
const ALERT_TESTS_FILE = path.join(MONITORING_DIR, 'alerts.test.yml');

/** The service does not export these series and labels. Prometheus adds them; histograms have the label `le`. */
const EXTERNAL_SERIES = ['up'];
const EXTERNAL_LABELS = ['job', 'instance', 'le'];

let promtool: Promtool;
let metrics: MetricsScrape;
let alertRules: { alert: string; expr: string }[];
let dashboardExpressions: string[];

beforeAll(async () => {
  promtool = await findPromtool();
  metrics = await scrapeBusyService();
  alertRules = parse(await readFile(ALERT_RULES_FILE, 'utf8')).groups.flatMap(
    (group: { rules: typeof alertRules }) => group.rules,
  );
  dashboardExpressions = await readDashboardExpressions();
}, 120_000);

afterAll(() => promtool.remove());

describe('metrics of a service on PostgreSQL', () => {
  it('passes `promtool check metrics`', async () => {
    const result = await promtool.run(['check', 'metrics'], metrics.text);
    expect(result).toEqual({ hasPassed: true, output: '' });
  });

  it('has all series and labels that the alerts and the dashboard query', () => {
    const expressions = [...alertRules.map(({ expr }) => expr), ...dashboardExpressions];
    const queriedSeries = expressions.flatMap(findSeries);
    expect(queriedSeries.length).toBeGreaterThan(50);
    const missing = queriedSeries.filter(
      ({ name, labels }) => !EXTERNAL_SERIES.includes(name) && !metrics.hasSeries(name, labels),
    );
    expect(missing).toEqual([]);
  });
});

describe('alert rules', () => {
  it('passes `promtool check config` together with the Prometheus configuration', async () => {
    const file = path.join(MONITORING_DIR, 'prometheus.yml');
    const { hasPassed, output } = await promtool.run(['check', 'config', file]);
    expect(output).toContain(`${alertRules.length} rules found`);
    expect(hasPassed, output).toBe(true);
  });

  it('passes the unit tests of the rules in alerts.test.yml', async () => {
    const { hasPassed, output } = await promtool.run(['test', 'rules', ALERT_TESTS_FILE]);
    expect(hasPassed, output).toBe(true);
  });

  it('send alerts that page to the pager, and others to the ticket system', async () => {
    const amtool = '/usr/bin/amtool';
    if (!(await pathExists(amtool))) {
      await installDebianPackages('prometheus-alertmanager');
    }
    const file = path.join(MONITORING_DIR, 'alertmanager.yml');
    await runProgram(amtool, ['check-config', file]);
    for (const severity of ['page', 'ticket']) {
      const { stdout } = await runProgram(amtool, [
        ...['config', 'routes', 'test', `--config.file=${file}`],
        `severity=${severity}`,
      ]);
      expect(stdout.trim()).toBe(severity);
    }
  });

  it('has for each rule a test in which the alert fires', async () => {
    const { tests } = parse(await readFile(ALERT_TESTS_FILE, 'utf8')) as {
      tests: { alert_rule_test: { alertname: string; exp_alerts: unknown[] }[] }[];
    };
    const firingCases = tests
      .flatMap(({ alert_rule_test: cases }) => cases)
      .filter(({ exp_alerts: expected }) => expected.length > 0);
    expect(new Set(firingCases.map(({ alertname }) => alertname))).toEqual(
      new Set(alertRules.map(({ alert }) => alert)),
    );
  });
});

describe('Grafana dashboard', () => {
  it('has valid PromQL queries', async () => {
    const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-alerts-'));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    const file = path.join(folder, 'dashboard.yml');
    // promtool checks only rule files, so each query becomes a recording rule.
    const recordingRules = dashboardExpressions.map((expr, index) => ({
      record: `panel_${index}`,
      expr: expr.replaceAll('$__rate_interval', '5m'),
    }));
    await writeFile(file, stringify({ groups: [{ name: 'all', rules: recordingRules }] }));
    const { hasPassed, output } = await promtool.run(['check', 'rules', file]);
    expect(hasPassed, output).toBe(true);
  });

  it('shows every series of nutpost, except counts and sums of histograms', () => {
    const shown = new Set(dashboardExpressions.flatMap(findSeries).map(({ name }) => name));
    const exported = [...metrics.metricNames].filter((name) => name.startsWith('nutpost_'));
    const missing = exported.filter((name) => !/_(count|sum)$/.test(name) && !shown.has(name));
    expect(missing).toEqual([]);
  });
});

async function readDashboardExpressions(): Promise<string[]> {
  const text = await readFile(path.join(MONITORING_DIR, 'dashboard.json'), 'utf8');
  const { panels } = JSON.parse(text) as { panels: { targets?: { expr: string }[] }[] };
  return panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
}

/** Returns the series that a PromQL expression queries, with the labels that the expression matches. */
function findSeries(expression: string): { name: string; labels: string[] }[] {
  const selectors = expression.matchAll(/\b(up|(?:nutpost|nodejs|process)_\w+)(?:\{([^}]*)\})?/g);
  return [...selectors].map(([, name = '', matchers = '']) => ({
    name,
    labels: [...matchers.matchAll(/(\w+)(?:=|!=|=~|!~)"/g)]
      .map(([, label = '']) => label)
      .filter((label) => !EXTERNAL_LABELS.includes(label)),
  }));
}

/** Scrapes a service after a paid zap whose relay is unreachable, and after a 429 response of the mint. */
async function scrapeBusyService(): Promise<MetricsScrape> {
  await using cleanup = new AsyncDisposableStack();
  const mint = await TestMint.start();
  cleanup.defer(() => mint.close());
  const database = await createOperationsDatabase();
  cleanup.defer(() => database.drop());
  const settings = {
    DATABASE_URL: database.url,
    METRICS_PORT: '0',
    ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY,
    ZAP_RELAYS: 'ws://127.0.0.1:9',
  };
  const service = await startService(createTestConfig(mint.url, settings), {
    log: createLogger('silent'),
  });
  cleanup.defer(() => service.stop());

  const wallet = new RecipientClient(service.publicOrigin);
  const lnurlPath = `/.well-known/lnurlp/${wallet.npub}`;
  const { text } = createZapRequest({ recipient: wallet.pubkey, amountMsat: 1_000 });
  const { body } = await requestJson(service.url, `${lnurlPath}?${buildZapQuery(text, 1_000)}`);
  mint.pay(body.pr);
  await eventually(async () => expect(await wallet.listPaidQuotes()).toHaveLength(1));
  mint.switches.rateLimit = { requestsPerWindow: 1 };
  return await eventually(async () => {
    await requestJson(service.url, `${lnurlPath}?amount=1000`);
    const scrape = await scrapeMetrics(service);
    expect(scrape.metricNames).toContain('nutpost_mint_limited');
    expect(scrape.sumSeries('nutpost_database_counts_fresh')).toBe(1);
    return scrape;
  });
}
