import { globSync, readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Deployment } from 'kubernetes-types/apps/v1.d.ts';
import type { HorizontalPodAutoscaler } from 'kubernetes-types/autoscaling/v2.d.ts';
import type { CronJob } from 'kubernetes-types/batch/v1.d.ts';
import type { Service } from 'kubernetes-types/core/v1.d.ts';
import type { Ingress, NetworkPolicy } from 'kubernetes-types/networking/v1.d.ts';
import type { PodDisruptionBudget } from 'kubernetes-types/policy/v1.d.ts';
import { describe, expect, it, onTestFinished } from 'vitest';
import { parse } from 'yaml';
import { runProgram } from '../../scripts/debian-packages.ts';
import { readConfig, SETTING_NAMES } from '../../src/config.ts';
import { useTestEnvironment } from '../helpers/service/test-environment.ts';

/** Tests the manifests in deploy/kubernetes/ without a cluster. */

const PROJECT_DIR = path.resolve(import.meta.dirname, '../..');
const MANIFEST_DIR = path.join(PROJECT_DIR, 'deploy/kubernetes');

const read = (name: string) => readFileSync(path.join(MANIFEST_DIR, name), 'utf8');

const manifestFiles = globSync('*.yaml', { cwd: MANIFEST_DIR })
  .filter((name) => name !== 'kustomization.yaml')
  .toSorted();
const deployment: Deployment = parse(read('deployment.yaml'));
const service: Service = parse(read('service.yaml'));
const autoscaler: HorizontalPodAutoscaler = parse(read('horizontalpodautoscaler.yaml'));
const disruptionBudget: PodDisruptionBudget = parse(read('poddisruptionbudget.yaml'));
const networkPolicy: NetworkPolicy = parse(read('networkpolicy.yaml'));
const ingress: Ingress = parse(read('ingress.yaml'));
const backup: CronJob = parse(read('backup.yaml'));
const settings = parseEnvFile(read('settings.env'));
const exampleSecrets = parseEnvFile(read('secrets.env.example'));

const pod = deployment.spec?.template.spec;
const podLabels = deployment.spec?.template.metadata?.labels;
const container = pod?.containers[0];
const containerPorts = new Map(
  container?.ports?.map(({ name, containerPort }) => [name, containerPort]),
);
const variables = new Map(container?.env?.map((variable) => [variable.name, variable]));

const environment = useTestEnvironment();

it('all manifests match the schema of Kubernetes', async () => {
  expect(manifestFiles.length).toBeGreaterThan(5);
  expect(await findSchemaErrors(manifestFiles.map((name) => parse(read(name))))).toEqual([]);
});

describe('settings', () => {
  const replacedSecrets = {
    ...exampleSecrets,
    JWT_SECRET: 'j'.repeat(32),
    DATABASE_URL: 'postgres://nutpost:secret@postgres.example/nutpost',
  };
  const plainVariables = Object.fromEntries(
    [...variables.values()].flatMap(({ name, value }) =>
      value === undefined ? [] : [[name, value]],
    ),
  );

  it('have names that the service knows, and valid values', () => {
    const names = [...variables.keys(), ...Object.keys(settings), ...Object.keys(exampleSecrets)];
    expect(names.filter((name) => !SETTING_NAMES.includes(name))).toEqual([]);
    const config = readConfig({ ...settings, ...replacedSecrets, ...plainVariables });
    expect(config).toMatchObject({ host: '0.0.0.0', database: { kind: 'postgres' } });
  });

  it('take all secrets from the generated Secret, and require those that the service requires', () => {
    const secretNames = SETTING_NAMES.filter((name) => /SECRET|^DATABASE_.*URL$/.test(name));
    expect(secretNames).toContain('DATABASE_URL');
    for (const name of secretNames) {
      expect(variables.get(name)?.valueFrom?.secretKeyRef, name).toEqual({
        name: 'nutpost-secrets',
        key: name,
        ...(Object.hasOwn(exampleSecrets, name) ? {} : { optional: true }),
      });
      expect(settings).not.toHaveProperty(name);
    }
    expect(Object.keys(exampleSecrets)).toEqual(['DATABASE_URL', 'JWT_SECRET']);
  });
});

describe('pods', () => {
  it('are selected by all other manifests', () => {
    expect(service.spec?.selector).toEqual(podLabels);
    const selectors = [
      deployment.spec?.selector,
      disruptionBudget.spec?.selector,
      networkPolicy.spec?.podSelector,
      ...(pod?.topologySpreadConstraints?.map(({ labelSelector }) => labelSelector) ?? []),
    ];
    for (const selector of selectors) {
      expect(selector).toEqual({ matchLabels: podLabels });
    }
    const { apiVersion, kind, metadata } = deployment;
    expect(autoscaler.spec?.scaleTargetRef).toEqual({ apiVersion, kind, name: metadata?.name });
  });

  it('have ports on which the service listens, and to which the other manifests lead', () => {
    expect(String(containerPorts.get('http'))).toBe(variables.get('PORT')?.value);
    expect(String(containerPorts.get('metrics'))).toBe(variables.get('METRICS_PORT')?.value);
    expect(service.spec?.ports?.map(({ targetPort }) => targetPort)).toEqual(['http']);
    expect(
      ingress.spec?.rules?.flatMap(({ http }) => http?.paths.map(({ backend }) => backend)),
    ).toEqual([
      { service: { name: service.metadata?.name, port: { name: service.spec?.ports?.[0]?.name } } },
    ]);
    const allowedPorts = networkPolicy.spec?.ingress?.flatMap(({ ports }) => ports);
    expect(allowedPorts).toEqual([{ port: 'http' }, { port: 'metrics' }]);
  });

  it('have probes whose paths exist, and time for migrations', async () => {
    for (const probe of [
      container?.startupProbe,
      container?.livenessProbe,
      container?.readinessProbe,
    ]) {
      expect([...containerPorts.keys()]).toContain(probe?.httpGet?.port);
      const response = await fetch(`${environment.origin}${probe?.httpGet?.path}`);
      expect(response.status).toBe(200);
    }
    // The health check of the Dockerfile allows for migrations, too.
    const { periodSeconds = 0, failureThreshold = 0 } = container?.startupProbe ?? {};
    const dockerfile = readFileSync(path.join(PROJECT_DIR, 'Dockerfile'), 'utf8');
    const startMinutes = (periodSeconds * failureThreshold) / 60;
    expect(dockerfile).toContain(`--start-period=${startMinutes}m`);
  });

  it('get enough time to stop, and stop only when another pod is ready', () => {
    // The service exits within 15 s (docs/operations/monitoring.md).
    expect(pod?.terminationGracePeriodSeconds).toBeGreaterThan(15);
    const { periodSeconds = 0, failureThreshold = 0 } = container?.readinessProbe ?? {};
    expect(Number(settings['STOP_DELAY_SECONDS'])).toBeGreaterThan(
      periodSeconds * failureThreshold,
    );
    expect(deployment.spec?.strategy?.rollingUpdate).toEqual({ maxUnavailable: 0, maxSurge: 1 });
    expect(deployment.spec?.replicas).toBeUndefined();
    expect(autoscaler.spec?.minReplicas).toBe(3);
  });

  it('run as an unprivileged user on a read-only file system', () => {
    expect(pod).toMatchObject({
      automountServiceAccountToken: false,
      securityContext: {
        runAsUser: 1000,
        runAsNonRoot: true,
        seccompProfile: { type: 'RuntimeDefault' },
      },
    });
    expect(pod?.volumes).toBeUndefined();
    expect(container?.securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    });
  });
});

describe('the backup', () => {
  const backupPod = backup.spec?.jobTemplate.spec?.template;
  const [backupContainer] = backupPod?.spec?.containers ?? [];

  it('has the settings and secrets of the service, and gets none of its requests', () => {
    expect(backupContainer?.envFrom).toEqual([
      ...(container?.envFrom ?? []),
      { secretRef: { name: 'nutpost-secrets' } },
    ]);
    expect(backupPod?.metadata?.labels).not.toEqual(podLabels);
  });

  it('runs as an unprivileged user, who owns the volume', () => {
    expect(backupPod?.spec?.securityContext).toEqual({ ...pod?.securityContext, fsGroup: 1000 });
    expect(backupContainer?.securityContext).toEqual(container?.securityContext);
    const [volume] = backupPod?.spec?.volumes ?? [];
    const { metadata } = parse(read('backup-volume.yaml'));
    expect(volume?.persistentVolumeClaim?.claimName).toBe(metadata.name);
    expect(backupContainer?.command).toContain(backupContainer?.volumeMounts?.[0]?.mountPath);
  });
});

describe('Ingress', () => {
  it('serves the hosts of PUBLIC_ORIGINS', () => {
    const hosts = settings['PUBLIC_ORIGINS']?.split(',').map((origin) => new URL(origin).host);
    expect(ingress.spec?.rules?.map(({ host }) => host)).toEqual(hosts);
    expect(ingress.spec?.tls?.flatMap((entry) => entry.hosts)).toEqual(hosts);
  });

  it('configures HAProxy like the tested example', () => {
    const example = readFileSync(path.join(PROJECT_DIR, 'docs/proxies/haproxy.cfg'), 'utf8');
    const exampleLines = example.split('\n').map((line) => line.trim());
    const annotations = ingress.metadata?.annotations ?? {};
    const snippet = annotations['haproxy.org/backend-config-snippet']?.trim().split('\n') ?? [];
    expect(snippet.length).toBeGreaterThan(8);
    expect(exampleLines).toEqual(expect.arrayContaining(snippet));
    const errors = exampleLines.filter((line) => /^http-(error|after-response)/.test(line));
    expect(snippet).toEqual(expect.arrayContaining(errors));
    expect(exampleLines).toEqual(
      expect.arrayContaining([
        `balance ${annotations['haproxy.org/load-balance']}`,
        `option httpchk ${annotations['haproxy.org/check-http']}`,
        `timeout check ${annotations['haproxy.org/timeout-check']}`,
        `timeout server ${annotations['haproxy.org/timeout-server']}`,
      ]),
    );
  });
});

/** Returns the errors of the TypeScript compiler, which rejects unknown fields in object literals at every depth. */
async function findSchemaErrors(
  manifests: { apiVersion: string; kind: string }[],
): Promise<string[]> {
  const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-manifests-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const typesFolder = path.join(PROJECT_DIR, 'node_modules/kubernetes-types');
  const lines = manifests.map((manifest, index) => {
    // `networking.k8s.io/v1` is in the folder `networking`, and `v1` in the folder `core`.
    const [version, group = 'core'] = manifest.apiVersion.split('/').toReversed();
    const type = `import('${typesFolder}/${group.split('.')[0]}/${version}.d.ts').${manifest.kind}`;
    return `export const manifest${index}: ${type} = ${JSON.stringify(manifest)};`;
  });
  const file = path.join(folder, 'manifests.ts');
  await writeFile(file, lines.join('\n'));
  const compiler = path.join(PROJECT_DIR, 'node_modules/.bin/tsc');
  const options = ['--noEmit', '--strict', '--pretty', 'false', '--module', 'preserve'];
  try {
    await runProgram(compiler, [...options, file], { cwd: folder });
    return [];
  } catch (error) {
    const { stdout = '' } = error as { stdout?: string };
    return stdout.split('\n').filter((line) => line !== '');
  }
}

function parseEnvFile(text: string): Record<string, string> {
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return Object.fromEntries(lines.map((line) => line.split(/=(.*)/).slice(0, 2)));
}
