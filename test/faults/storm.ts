import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { SeededRandom } from '../../demo/test-mint/seeded-random.ts';
import { CheckRecorder, type CheckResult } from './check-recorder.ts';
import { type DatabaseKind, type Deployment, startDeployment } from './deployment.ts';
import { sleepUnlessAborted, type TryRequest, tryRequest } from './storm-client.ts';

/** A payer who gets no invoice retries for this time. */
const MAX_INVOICE_WAIT_MS = 60_000;

const MIN_RETRY_DELAY_MS = 150;
const MAX_RETRY_DELAY_MS = 1_200;

export interface StormOptions {
  database: DatabaseKind;
  seed: string;
  paymentCount: number;
  killCount: number;
  folder: string;
  signal: AbortSignal;
  logProgress: (line: string) => void;
}

export interface StormResult {
  checkResults: readonly CheckResult[];
  counts: Record<string, string>;
}

/**
 * A test in which the service runs under load while its processes are killed and its mints fail. This state is common
 * to all storms.
 */
export interface Storm {
  pickOrigin: (random: SeededRandom) => string;
  request: TryRequest;
  checkRecorder: CheckRecorder;
  random: SeededRandom;
  signal: AbortSignal;
  end: () => void;
  failedInvoiceRequests: number;
  invoiceWaitsMs: number[];
}

export interface ProcessStorm extends Storm {
  deployment: Deployment;
}

export interface Invoice {
  pr: string;
  verify: string;
}

/** Starts the service. Disposing of the stack kills its processes. */
export async function startStorm(
  name: string,
  options: StormOptions,
  stack: AsyncDisposableStack,
  setup: {
    checks: Readonly<Record<string, string>>;
    defaultMintUrl: string;
    processCount?: 2 | 3;
    env?: Record<string, string>;
  },
): Promise<ProcessStorm> {
  const { checks, ...deploymentOptions } = setup;
  const checkRecorder = new CheckRecorder(checks);
  const deployment = stack.use(
    await startDeployment({
      ...deploymentOptions,
      database: options.database,
      folder: path.join(options.folder, `${name}-${options.database}`),
      onUnexpectedExit: (description) => checkRecorder.addProblem('processes', description),
    }),
  );
  const end = new AbortController();
  stack.defer(() => end.abort());
  return {
    deployment,
    pickOrigin: (random) => deployment.pickOrigin(random),
    request: (origin, path, init) => tryRequest(checkRecorder, origin, path, init),
    checkRecorder,
    random: new SeededRandom(`${options.seed}/${name}/${options.database}`),
    signal: AbortSignal.any([end.signal, options.signal]),
    end: () => end.abort(),
    failedInvoiceRequests: 0,
    invoiceWaitsMs: [],
  };
}

/**
 * Requests an invoice from random processes until a process returns the invoice.
 * @returns null if there is no invoice after {@link MAX_INVOICE_WAIT_MS}; this also adds a problem
 */
export async function requestInvoice(
  storm: Storm,
  payerNumber: number,
  callbackPath: string,
): Promise<Invoice | null> {
  const { checkRecorder, signal } = storm;
  const random = storm.random.fork(`payer ${payerNumber}`);
  const startedAtMs = performance.now();
  const waitedMs = () => performance.now() - startedAtMs;
  while (waitedMs() < MAX_INVOICE_WAIT_MS && !signal.aborted) {
    const response = await storm.request(storm.pickOrigin(random), callbackPath);
    if (typeof response?.body?.pr === 'string' && waitedMs() < MAX_INVOICE_WAIT_MS) {
      storm.invoiceWaitsMs.push(waitedMs());
      return response.body as Invoice;
    }
    storm.failedInvoiceRequests += 1;
    await sleepUnlessAborted(random.between(MIN_RETRY_DELAY_MS, MAX_RETRY_DELAY_MS), signal);
  }
  checkRecorder.addProblem(
    'invoices',
    `payer ${payerNumber}: no invoice in ${MAX_INVOICE_WAIT_MS / 1000} s`,
  );
  return null;
}

/** @param findSecrets returns the secrets that a log must not contain but does */
export async function stopAndCheckProcesses(
  { deployment, checkRecorder }: ProcessStorm,
  findSecrets: (log: string) => readonly string[] = () => [],
): Promise<void> {
  for (const serviceProcess of deployment.processes) {
    const { name, logFile } = serviceProcess;
    if (!(await serviceProcess.stop())) {
      checkRecorder.addProblem('processes', `${name} did not shut down cleanly`);
    }
    for (const line of await serviceProcess.readUnexpectedLogLines()) {
      checkRecorder.addProblem('processes', `${name} logged: ${line}`);
    }
    const secrets = findSecrets(await readFile(logFile, 'utf8'));
    if (secrets.length > 0) {
      checkRecorder.addProblem('secrets', `${name} logged ${secrets.length} secrets`);
    }
  }
}

/** Describes each fault that never happened. Without the faults, a storm would prove nothing. */
export function describeZeroCounts(counts: Readonly<Record<string, number>>): string[] {
  return Object.entries(counts)
    .filter(([, count]) => count === 0)
    .map(([name]) => `no ${name}`);
}

export function formatSeconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
