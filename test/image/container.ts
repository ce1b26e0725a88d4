import { onTestFinished } from 'vitest';
import { IMAGE, runPodman } from '../../scripts/container-image.ts';
import { findFreePort } from '../../scripts/server-process.ts';
import { eventually } from '../helpers/eventually.ts';

/** As in docs/operations/deployment.md: no file can be written except in the volume, and no privileges. */
const DOCUMENTED_OPTIONS = [
  ...['--read-only', '--read-only-tmpfs=false'],
  ...['--cap-drop', 'ALL', '--security-opt', 'no-new-privileges'],
];

/** Runs a command of Podman in the storage with the image. @returns its output */
export async function podman(...args: readonly string[]): Promise<string> {
  const folder = process.env['IMAGE_STORAGE'];
  if (folder === undefined) {
    throw new Error('these tests need an image: run `npm run test:image`');
  }
  return (await runPodman(folder, args)).stdout.trim();
}

/** Runs a command in a container of its own, instead of the service. Throws if the exit code is not 0. */
export function runInImage(command: readonly string[], ...options: string[]): Promise<string> {
  return podman('run', '--rm', ...DOCUMENTED_OPTIONS, ...options, IMAGE, ...command);
}

/** The service in a container. It shares the network of the machine, so that it reaches a mint of the test. */
export class ServiceContainer {
  readonly #id: string;
  readonly origin: string;

  /** Starts the service, and waits until its health check succeeds. Removes the container when the test ends. */
  static async start(mintUrl: string): Promise<ServiceContainer> {
    const port = await findFreePort('127.0.0.1');
    const id = await podman(
      ...['run', '--detach', ...DOCUMENTED_OPTIONS, '--network', 'host'],
      // The service is process 1, as on Kubernetes. The kernel gives it only the signals that it handles.
      '--init=false',
      ...['--env', `PORT=${port}`, '--env', `DEFAULT_MINT_URL=${mintUrl}`],
      ...['--env', 'ALLOW_PRIVATE_NETWORKS=true', IMAGE],
    );
    onTestFinished(async () => {
      await podman('rm', '--force', '--volumes', '--time', '0', id);
    });
    const container = new ServiceContainer(id, `http://localhost:${port}`);
    await eventually(() => podman('healthcheck', 'run', id));
    return container;
  }

  private constructor(id: string, origin: string) {
    this.#id = id;
    this.origin = origin;
  }

  exec(...command: string[]): Promise<string> {
    return podman('exec', this.#id, ...command);
  }

  /** Returns a value of `podman inspect`. @param field a Go template, such as `.State.Pid` */
  inspect(field: string): Promise<string> {
    return podman('inspect', '--format', `{{${field}}}`, this.#id);
  }

  readLog(): Promise<string> {
    return podman('logs', this.#id);
  }

  async stop(): Promise<{ exitCode: number; durationMs: number }> {
    const startMs = performance.now();
    await podman('kill', '--signal', 'SIGTERM', this.#id);
    const exitCode = Number(await podman('wait', this.#id));
    return { exitCode, durationMs: performance.now() - startMs };
  }
}
