import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { SeededRandom } from '../../demo/test-mint/seeded-random.ts';
import { type CheckResult, CheckResults } from './check-results.ts';
import { type DatabaseKind, type Deployment, startDeployment } from './deployment.ts';
import { sleepUnlessAborted, tryRequest } from './storm-client.ts';

/** How long a payer keeps requesting an invoice. */
const MAX_INVOICE_WAIT_MS = 60_000;

/** Delay between two requests of one payer. */
const MIN_RETRY_MS = 150;
const MAX_RETRY_MS = 1_200;

export interface StormOptions {
  database: DatabaseKind;
  seed: string;
  paymentCount: number;
  /** Number of kills on both databases together. */
  killCount: number;
  /** Directory for the data and logs of the processes. */
  folder: string;
  /** Aborts the storm, which then throws. */
  signal: AbortSignal;
  logProgress: (line: string) => void;
}

export interface StormResult {
  checkResults: readonly CheckResult[];
  counts: Record<string, string>;
}

/** State that all storms have in common. */
export interface Storm {
  deployment: Deployment;
  checkResults: CheckResults;
  random: SeededRandom;
  /** Aborts when the storm ends or is interrupted. */
  signal: AbortSignal;
  end: () => void;
  /** Invoice requests that were rejected or got no response. */
  retries: number;
  /** How long each payer waited for an invoice, in milliseconds. */
  invoiceWaitsMs: number[];
}

export interface Invoice {
  pr: string;
  verify: string;
}

/** Starts the service, which is stopped when the stack is disposed of. */
export async function startStorm(
  name: string,
  options: StormOptions,
  stack: AsyncDisposableStack,
  parts: {
    checks: Readonly<Record<string, string>>;
    defaultMintUrl: string;
    processCount?: 2 | 3;
    env?: Record<string, string>;
  },
): Promise<Storm> {
  const { checks, ...rest } = parts;
  const checkResults = new CheckResults(checks);
  const deployment = stack.use(
    await startDeployment({
      ...rest,
      database: options.database,
      folder: path.join(options.folder, `${name}-${options.database}`),
      onUnexpectedExit: (description) => checkResults.addProblem('processes', description),
    }),
  );
  const end = new AbortController();
  stack.defer(() => end.abort());
  return {
    deployment,
    checkResults,
    random: new SeededRandom(`${options.seed}/${name}/${options.database}`),
    signal: AbortSignal.any([end.signal, options.signal]),
    end: () => end.abort(),
    retries: 0,
    invoiceWaitsMs: [],
  };
}

/**
 * Requests an invoice from random processes until one returns it.
 *
 * @param path path and query of the LNURL callback
 * @returns null after {@link MAX_INVOICE_WAIT_MS}, and adds a problem
 */
export async function requestInvoice(
  storm: Storm,
  payerNumber: number,
  path: string,
): Promise<Invoice | null> {
  const { deployment, checkResults, signal } = storm;
  const random = storm.random.fork(`payer ${payerNumber}`);
  const startedAtMs = performance.now();
  const waitedMs = () => performance.now() - startedAtMs;
  while (waitedMs() < MAX_INVOICE_WAIT_MS && !signal.aborted) {
    const response = await tryRequest(checkResults, deployment.anyOrigin(random), path);
    if (typeof response?.body?.pr === 'string' && waitedMs() < MAX_INVOICE_WAIT_MS) {
      storm.invoiceWaitsMs.push(waitedMs());
      return response.body as Invoice;
    }
    storm.retries += 1;
    await sleepUnlessAborted(random.between(MIN_RETRY_MS, MAX_RETRY_MS), signal);
  }
  checkResults.addProblem(
    'invoices',
    `payer ${payerNumber}: no invoice in ${MAX_INVOICE_WAIT_MS / 1000} s`,
  );
  return null;
}

export async function stopAndCheckProcesses(
  { deployment, checkResults }: Storm,
  findSecrets: (log: string) => readonly string[] = () => [],
): Promise<void> {
  for (const each of deployment.processes) {
    if (!(await each.stop())) {
      checkResults.addProblem('processes', `${each.name} did not shut down cleanly`);
    }
    for (const line of await each.readUnexpectedLogLines()) {
      checkResults.addProblem('processes', `${each.name} logged: ${line}`);
    }
    const secrets = findSecrets(await readFile(each.logFile, 'utf8'));
    if (secrets.length > 0) {
      checkResults.addProblem('secrets', `${each.name} logged ${secrets.length} secrets`);
    }
  }
}

/** Describes each count that is zero. A storm without faults would prove nothing. */
export function describeMissing(counts: Readonly<Record<string, number>>): string[] {
  return Object.entries(counts)
    .filter(([, count]) => count === 0)
    .map(([name]) => `no ${name}`);
}

export function formatSeconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
