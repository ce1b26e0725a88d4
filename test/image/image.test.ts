import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { BASE_IMAGE, IMAGE, IMAGE_VERSION } from '../../scripts/container-image.ts';
import { runProgram } from '../../scripts/debian-packages.ts';
import { eventually } from '../helpers/eventually.ts';
import { startTestMint } from '../helpers/mints/start-test-mint.ts';
import { RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import { findAssets } from '../helpers/web/find-assets.ts';
import { podman, runInImage, ServiceContainer } from './container.ts';

/** Tests the image that scripts/container-image.ts builds from the Dockerfile. */

/** The service's dependencies take about 60 MB. Development packages would add more than 100 MB. */
const MAX_APPLICATION_MB = 80;

const PROJECT_DIR = path.resolve(import.meta.dirname, '../..');

describe('files of the image', () => {
  let image: string;
  let base: string;

  beforeAll(async () => {
    image = await podman('image', 'mount', IMAGE);
    base = await podman('image', 'mount', BASE_IMAGE);
  });

  afterAll(() => podman('image', 'unmount', '--all'));

  it('adds files only in /app and an empty /data to its base', async () => {
    const baseFiles = new Set(await listFiles(base));
    const added = (await listFiles(image)).filter((file) => !baseFiles.has(file));
    expect(added.filter((file) => !file.startsWith('app/'))).toEqual(['app', 'data']);
  });

  it('has the source files, without tests, settings or git', async () => {
    const { stdout } = await runProgram('git', ['ls-files', 'bin', 'demo', 'migrations', 'src'], {
      cwd: PROJECT_DIR,
    });
    const files = await listFiles(path.join(image, 'app'), '-type', 'f');
    const ownFiles = files.filter((file) => !/^(?:node_modules|dist)\//.test(file));
    expect(ownFiles.toSorted()).toEqual(['package.json', ...stdout.trim().split('\n')].toSorted());
  });

  it('has the packages that the service needs, and no others', async () => {
    const { packages } = JSON.parse(
      await readFile(path.join(PROJECT_DIR, 'package-lock.json'), 'utf8'),
    );
    const needed = Object.keys(packages).filter((name) => {
      const { dev, optional, devOptional } = packages[name];
      return name !== '' && !dev && !optional && !devOptional;
    });
    const manifests = await listFiles(
      path.join(image, 'app'),
      ...['-path', '*/node_modules/*/package.json'],
    );
    const installed = manifests
      .map((file) => path.dirname(file))
      .filter((folder) => /(?:^|\/)node_modules\/(?:@[^/]+\/)?[^/]+$/.test(folder));
    expect(installed.toSorted()).toEqual(needed.toSorted());
  });

  it('belongs to root, except for the compile cache and the volume', async () => {
    const files = await listFiles(image, '-user', '1000', '-not', '-path', '*/home/*');
    expect(files.filter((file) => !file.startsWith('app/node_modules/.cache'))).toEqual(['data']);
  });

  it(`adds less than ${MAX_APPLICATION_MB} MB to its base`, async () => {
    const layers = await readHistory(IMAGE);
    const baseLayers = await readHistory(BASE_IMAGE);
    // The newest layer is first.
    const ownLayers = layers.slice(0, layers.length - baseLayers.length).filter(({ size }) => size);
    const totalBytes = ownLayers.reduce((total, { size }) => total + size, 0);
    expect(totalBytes).toBeLessThan(MAX_APPLICATION_MB * 1e6);
  });
});

describe('service in a container with a read-only root file system', () => {
  it('receives a payment, serves the built script, and stops within 10 s after SIGTERM', async () => {
    const mint = await startTestMint();
    const container = await ServiceContainer.start(mint.url);
    const { origin } = container;
    const wallet = new RecipientClient(origin);
    const path = `/.well-known/lnurlp/${wallet.npub}?amount=21000`;
    const { id } = mint.pay((await requestJson(origin, path)).body.pr);
    await eventually(async () => {
      expect(await wallet.listPaidQuotes()).toMatchObject([{ quoteId: id, mintUrl: mint.url }]);
    });
    const page = await fetch(`${origin}/account`);
    const scriptPath = findAssets(await page.text()).find((path) => path.endsWith('.js'));
    const script = await fetch(`${origin}${scriptPath}`);
    expect(script.headers.get('content-type')).toMatch(/^text\/javascript/);
    const builtScript = await runInImage(['cat', 'dist/web/account.js']);
    expect((await script.text()).trim() === builtScript, 'serves the built script').toBe(true);
    const { exitCode, durationMs } = await container.stop();
    expect({ exitCode, log: await container.readLog() }).toEqual({
      exitCode: 0,
      log: expect.stringContaining('nutpost has stopped'),
    });
    // docker-compose.yml allows 15 s.
    expect(durationMs).toBeLessThan(10_000);
  });

  it('runs without privileges, and writes only to /data', async () => {
    const mint = await startTestMint();
    const container = await ServiceContainer.start(mint.url);
    const status = await readFile(`/proc/${await container.inspect('.State.Pid')}/status`, 'utf8');
    expect(status).toMatch(/^Uid:(?:\t1000){4}$/m);
    expect(status).toMatch(/^CapEff:\t0{16}$/m);
    for (const folder of ['/app', '/tmp', '/app/node_modules/.cache', '/home/node']) {
      await expect(container.exec('touch', `${folder}/file`), folder).rejects.toThrow(
        'Read-only file system',
      );
    }
    expect(await container.exec('ls', '-A', '/dev/shm')).toBe('');
    expect((await container.exec('ls', '/data')).split('\n')).toContain('nutpost.sqlite');
    expect(await container.exec('stat', '--format', '%U %a', '/data')).toBe('node 700');
  });

  it('prints the version that the build was given', async () => {
    expect(await runInImage(['node', 'bin/nutpost.js', '--version'])).toBe(IMAGE_VERSION);
  });

  it.each([
    ['bin/nutpost.js --help', 'src/cli.ts'],
    [
      '--heap-growing-percent=50 src/net/network-thread-worker.ts',
      'src/net/network-thread-worker.ts',
    ],
  ])('uses the compile cache that the build filled with `node %s`', async (args, file) => {
    const output = await runInImage(
      ['sh', '-c', `node ${args} 2>&1`],
      ...['--env', 'NODE_DEBUG_NATIVE=COMPILE_CACHE'],
      ...['--env', 'NODE_COMPILE_CACHE=node_modules/.cache/nutpost'],
    );
    expect(output).toMatch(new RegExp(`${RegExp.escape(file)}.* accepted`));
  });
});

/** Returns the paths of all files and folders below a folder. @param tests more tests of `find` */
async function listFiles(folder: string, ...tests: string[]): Promise<string[]> {
  const args = [folder, '-mindepth', '1', ...tests, '-printf', '%P\\n'];
  const { stdout } = await runProgram('find', args, { maxBuffer: 2 ** 26 });
  return stdout.split('\n').filter((file) => file !== '');
}

async function readHistory(image: string): Promise<{ size: number }[]> {
  return JSON.parse(await podman('history', '--no-trunc', '--format', 'json', image));
}
