import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, it, onTestFinished } from 'vitest';
import type { LoadResult } from '../../bench/cluster/load-process.ts';
import { readCpuTimes, readMemoryMb } from '../../bench/cluster/process-usage.ts';
import {
  type ClusterReport,
  listProblems,
  mergeResults,
  renderClusterReport,
} from '../../bench/cluster/report.ts';

const LOAD: LoadResult = {
  invoicesMs: [1, 2, 3],
  updatesMs: [4],
  listsMs: [5],
  issueUpdatesMs: [],
  delaysMs: [0],
  missingInList: 0,
  problems: {},
};

const REPORT: ClusterReport = {
  paymentsPerSecond: 10,
  paymentCount: 100,
  seconds: 10,
  load: LOAD,
  cpuMs: new Map([['nutpost 1', 5_000]]),
  machineCpuMs: 8_000,
  memoryMb: new Map([['nutpost 1', 123]]),
  walBytes: 1024 * 1000,
  walPages: 50,
  problems: [],
};

it('renders latencies, CPU and WAL as tables in Markdown', () => {
  const tables = renderClusterReport(REPORT).replaceAll(/ +/g, ' ');
  expect(tables).toContain('| invoice, through HAProxy | 2.0 | 3.0 | 3.0 | 3.0 |');
  expect(tables).toContain('| nutpost 1 | 0.50 | 50.00 | 123 |');
  expect(tables).toContain('| kernel threads and other programs | 0.30 | 30.00 | |');
  expect(tables).toContain('| WAL per payment | 10.0 KB |');
  expect(tables).not.toContain('PROBLEM');
});

it('reports payments that a list lacks, and the failures of all load generators', () => {
  const failed = { ...LOAD, missingInList: 1, problems: { 'list: 503': 2 } };
  const load = mergeResults([failed, failed]);
  expect(listProblems({ ...REPORT, load })).toEqual([
    'PROBLEM: 2 lists lacked a payment',
    'PROBLEM: 4 x list: 503',
  ]);
});

it('counts the CPU time and memory of the children of a part, unless they are parts themselves', async () => {
  // Prints the ids of two children that stay idle, after a third one has used CPU time and has exited.
  const script = `
    i=0; (while [ $i -lt 50000 ]; do i=$((i + 1)); done); sleep 60 & own=$!; sleep 60 & other=$!
    trap 'kill $own $other' EXIT; echo "$own $other"; read -r line`;
  const shell = spawn('sh', ['-c', script], { stdio: ['pipe', 'pipe', 'inherit'] });
  onTestFinished(() => {
    shell.stdin.end();
  });
  const [line] = (await once(shell.stdout, 'data')) as [Buffer];
  const [own = 0, other = 0] = line.toString().split(' ').map(Number);
  const parts = [
    { name: 'shell', pids: [shell.pid ?? 0] },
    { name: 'own', pids: [own] },
    { name: 'other', pids: [other] },
  ];
  const { partsMs, machineMs } = await readCpuTimes(parts.slice(0, 2));
  expect(partsMs.get('shell')).toBeGreaterThan(partsMs.get('own') ?? 0);
  expect(machineMs).toBeGreaterThan(partsMs.get('shell') ?? 0);
  const separate = await readMemoryMb(parts);
  const together = await readMemoryMb(parts.slice(0, 1));
  expect(together.get('shell')).toBeGreaterThan(separate.get('shell') ?? 0);
});
