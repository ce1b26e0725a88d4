import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { Dice } from '../../demo/test-mint/dice.ts';
import { ask, pause } from './client.ts';
import { Findings, type Verdict } from './findings.ts';
import { type DatabaseKind, openSite, type Site } from './site.ts';

/** How long a payer asks for an invoice. */
const PATIENCE_MS = 60_000;

/** Between two requests of one payer. */
const SHORTEST_RETRY_MS = 150;
const LONGEST_RETRY_MS = 1_200;

export interface StormOptions {
  database: DatabaseKind;
  seed: string;
  /** The number of payments, and of kills on both databases together. */
  payments: number;
  kills: number;
  /** Holds the data and logs of the processes. */
  folder: string;
  /** Ends the storm early; it then throws. */
  signal: AbortSignal;
  say: (line: string) => void;
}

export interface StormResult {
  verdicts: readonly Verdict[];
  counts: Record<string, string>;
}

/** What every storm consists of. */
export interface Storm {
  site: Site;
  findings: Findings;
  dice: Dice;
  /** Aborts when the storm ends, and at an interruption. */
  signal: AbortSignal;
  end: () => void;
  /** Requests for an invoice that were rejected or not answered. */
  retries: number;
  /** How long each payer waited for an invoice, in milliseconds. */
  waitsMs: number[];
}

export interface Invoice {
  pr: string;
  verify: string;
}

/** Starts the service. The stack stops it. */
export async function openStorm(
  name: string,
  options: StormOptions,
  stack: AsyncDisposableStack,
  parts: {
    checks: Readonly<Record<string, string>>;
    defaultMintUrl: string;
    sharing?: 2 | 3;
    env?: Record<string, string>;
  },
): Promise<Storm> {
  const { checks, ...rest } = parts;
  const findings = new Findings(checks);
  const site = stack.use(
    await openSite({
      ...rest,
      database: options.database,
      folder: path.join(options.folder, `${name}-${options.database}`),
      onDeath: (description) => findings.note('processes', description),
    }),
  );
  const end = new AbortController();
  stack.defer(() => end.abort());
  return {
    site,
    findings,
    dice: new Dice(`${options.seed}/${name}/${options.database}`),
    signal: AbortSignal.any([end.signal, options.signal]),
    end: () => end.abort(),
    retries: 0,
    waitsMs: [],
  };
}

/**
 * Asks processes at random until one returns an invoice.
 *
 * @param path of the LNURL callback, with its query
 * @returns null if the payer's patience ended first, which is a finding
 */
export async function askInvoice(
  storm: Storm,
  number: number,
  path: string,
): Promise<Invoice | null> {
  const { site, findings, signal } = storm;
  const dice = storm.dice.fork(`payer ${number}`);
  const askedAtMs = performance.now();
  const waitedMs = () => performance.now() - askedAtMs;
  while (waitedMs() < PATIENCE_MS && !signal.aborted) {
    const answer = await ask(findings, site.anyOrigin(dice), path);
    if (typeof answer?.body?.pr === 'string' && waitedMs() < PATIENCE_MS) {
      storm.waitsMs.push(waitedMs());
      return answer.body as Invoice;
    }
    storm.retries += 1;
    await pause(dice.between(SHORTEST_RETRY_MS, LONGEST_RETRY_MS), signal);
  }
  findings.note('served', `payer ${number}: no invoice in ${PATIENCE_MS / 1000} s`);
  return null;
}

export async function checkProcesses(
  { site, findings }: Storm,
  secretsIn: (log: string) => readonly string[] = () => [],
): Promise<void> {
  for (const each of site.processes) {
    if (!(await each.stop())) {
      findings.note('processes', `${each.name} did not shut down cleanly`);
    }
    for (const complaint of await each.complaints()) {
      findings.note('processes', `${each.name} logged: ${complaint}`);
    }
    const secrets = secretsIn(await readFile(each.logFile, 'utf8'));
    if (secrets.length > 0) {
      findings.note('secrets', `${each.name} logged ${secrets.length} secrets`);
    }
  }
}

/** Returns what did not happen. Without faults, a storm would prove nothing. */
export function missingOf(happened: Readonly<Record<string, number>>): string[] {
  return Object.entries(happened)
    .filter(([, count]) => count === 0)
    .map(([name]) => `no ${name}`);
}

export function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
