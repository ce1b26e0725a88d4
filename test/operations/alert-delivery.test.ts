import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { json } from 'node:stream/consumers';
import { expect, it, onTestFinished } from 'vitest';
import { installDebianPackages, pathExists } from '../../scripts/debian-packages.ts';
import { findPrometheusProgram } from '../../scripts/promtool.ts';
import { findFreePort, ServerProcess } from '../../scripts/server-process.ts';

/** Runs Prometheus and Alertmanager with the configurations in docs/monitoring. */

const MONITORING_DIR = path.join(import.meta.dirname, '../../docs/monitoring');

const ALERTMANAGER = '/usr/bin/prometheus-alertmanager';

const HOST = '127.0.0.1';

/** The parts of Alertmanager's webhook that the test reads. */
interface AlertNotification {
  receiver: string;
  alerts: { status: string; labels: Record<string, string>; annotations: { summary: string } }[];
}

it('sends an alert about a process that is down to the receiver for pages', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-alert-delivery-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const notification = Promise.withResolvers<AlertNotification>();
  const pager = createServer((request, response) => {
    void json(request).then((body) => notification.resolve(body as AlertNotification));
    response.end();
  });
  onTestFinished(() => void pager.close());
  await once(pager.listen(0, HOST), 'listening');
  const [nutpostPort, prometheusPort, alertmanagerPort] = [
    await findFreePort(HOST),
    await findFreePort(HOST),
    await findFreePort(HOST),
  ];
  await copyConfig(folder, 'alertmanager.yml', [
    ['http://pager.example/alert', `http://${HOST}:${(pager.address() as AddressInfo).port}/alert`],
    // Alertmanager waits for alerts of the same group, by default for 30 s.
    ['repeat_interval: 1d', 'repeat_interval: 1d\n  group_wait: 0s'],
  ]);
  await copyConfig(folder, 'prometheus.yml', [
    ['nutpost:9464', `${HOST}:${nutpostPort}`],
    ['alertmanager:9093', `${HOST}:${alertmanagerPort}`],
    ['scrape_interval: 15s', 'scrape_interval: 1s'],
    ['evaluation_interval: 15s', 'evaluation_interval: 1s'],
  ]);
  await copyConfig(folder, 'alerts.yml', [
    ['expr: up{job="nutpost"} == 0\n        for: 2m', 'expr: up{job="nutpost"} == 0'],
  ]);

  // It needs a file in /usr/share, so it must be installed.
  if (!(await pathExists(ALERTMANAGER))) {
    await installDebianPackages('prometheus-alertmanager');
  }
  await startProgram(folder, ALERTMANAGER, alertmanagerPort, [
    '--config.file=alertmanager.yml',
    '--storage.path=alertmanager',
    '--cluster.listen-address=',
  ]);
  const prometheus = await findPrometheusProgram('prometheus', folder);
  await startProgram(folder, prometheus, prometheusPort, [
    '--config.file=prometheus.yml',
    '--storage.tsdb.path=prometheus-data',
  ]);
  const { receiver, alerts } = await notification.promise;
  expect(receiver).toBe('page');
  expect(alerts).toMatchObject([
    {
      status: 'firing',
      labels: { alertname: 'NutpostDown', severity: 'page' },
      annotations: { summary: `Prometheus cannot scrape ${HOST}:${nutpostPort}` },
    },
  ]);
});

/** Copies a configuration, which must contain each text once, and replaces these texts. */
async function copyConfig(
  folder: string,
  name: string,
  replacements: readonly (readonly [text: string, replacement: string])[],
): Promise<void> {
  let config = await readFile(path.join(MONITORING_DIR, name), 'utf8');
  for (const [text, replacement] of replacements) {
    expect(config.split(text), text).toHaveLength(2);
    config = config.replace(text, replacement);
  }
  await writeFile(path.join(folder, name), config);
}

/** Starts a program, and waits until it is ready. */
async function startProgram(
  folder: string,
  program: string,
  port: number,
  args: readonly string[],
): Promise<void> {
  const address = `${HOST}:${port}`;
  const server = new ServerProcess(program, program, [...args, `--web.listen-address=${address}`], {
    cwd: folder,
  });
  onTestFinished(() => server.stop('SIGTERM'));
  await server.waitUntilReady(async () => {
    const response = await fetch(`http://${address}/-/ready`).catch(() => null);
    return response?.status === 200 ? true : null;
  });
}
