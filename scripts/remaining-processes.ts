import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';

const RETRY_DELAY_MS = 50;

/** Kills all processes whose environment names a folder, and waits until they have ended. Works on Linux only. */
export async function killProcessesWithFolder(folder: string): Promise<void> {
  for (;;) {
    const pids = await findProcesses(folder);
    if (pids.length === 0) {
      return;
    }
    for (const pid of pids) {
      killIfRunning(pid);
    }
    await delay(RETRY_DELAY_MS);
  }
}

async function findProcesses(folder: string): Promise<number[]> {
  const pids = (await readdir('/proc').catch(() => [])).filter((name) => /^\d+$/.test(name));
  const matches = await Promise.all(
    pids.map(async (pid) => {
      // The file is unreadable if the process belongs to another user, or has ended in the meantime.
      const environment = await readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '');
      return environment.includes(folder) ? [Number(pid)] : [];
    }),
  );
  return matches.flat();
}

export function killIfRunning(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
}
