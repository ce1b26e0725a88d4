import { chmod, copyFile, mkdir, mkdtemp, readFile, rename, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { getCACertificates } from 'node:tls';
import { installDebianPackages, pathExists, runProgram } from './debian-packages.ts';

/** Programs and Debian packages, which have the same names. runc is what runs the containers of Docker. */
const PROGRAMS = ['buildah', 'debootstrap', 'podman', 'runc'];

const DEBIAN_RELEASE = 'bookworm';

const NPM_VERSION = '11.19.1';

const CACHE = path.resolve('node_modules/.cache');

/** The base image's files. The name contains all versions, so other versions get another archive. */
const BASE_ARCHIVE = path.join(
  CACHE,
  `image-base-${DEBIAN_RELEASE}-node-${process.version}-npm-${NPM_VERSION}.tar`,
);

/** Empty files in the base image. The build mounts files of this machine over them, which the image must not contain. */
const NPM_SETTINGS_MOUNT = '/root/.npmrc';
const CERTIFICATES_MOUNT = '/usr/local/etc/npm-certificates.pem';
const HOSTS_MOUNT = '/etc/hosts';

export const IMAGE = 'localhost/nutpost';
/** As from `nutpost --version` in a clone. */
export const IMAGE_VERSION = '1.2.3+g92726cc';
export const BASE_IMAGE = 'localhost/nutpost-base';

/** Any machine allows these limits. By default, Podman sets higher limits than some machines allow. */
const CONTAINER_ULIMITS = ['nofile=4096:4096', 'nproc=4096:4096'];

/** A container storage with {@link IMAGE} and {@link BASE_IMAGE}. */
export interface BuiltImage {
  folder: string;
  /** Removes all containers and images. */
  remove(): Promise<void>;
}

/**
 * Installs the programs that build and run images, and creates the files of the base image, unless this has been done
 * before.
 *
 * @throws Error if this process is not root, or if a program stays missing
 */
export async function installImageTools(): Promise<void> {
  if (process.getuid?.() !== 0) {
    throw new Error('The image tests need root on Linux, because they create a file system.');
  }
  if (!(await areInstalled())) {
    await installDebianPackages(...PROGRAMS);
    if (!(await areInstalled())) {
      throw new Error(`The image tests need these programs on PATH: ${PROGRAMS.join(', ')}.`);
    }
  }
  if (!(await pathExists(BASE_ARCHIVE))) {
    console.log('Creating the base image (needed once, takes about a minute)');
    await createBaseArchive();
  }
}

/**
 * Builds the Dockerfile of this repository in a temporary folder. Call {@link installImageTools} first.
 *
 * @param signal stops the build
 * @throws Error with the output of the builder if the build fails
 */
export async function buildImage(signal: AbortSignal): Promise<BuiltImage> {
  const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-image-'));
  try {
    await writeSettings(folder);
    const dockerfile = await readFile('Dockerfile', 'utf8');
    const base = /^FROM (\S+)/m.exec(dockerfile)?.[1];
    await runPodman(folder, ['import', BASE_ARCHIVE, BASE_IMAGE]);
    await runPodman(folder, ['tag', BASE_IMAGE, `docker.io/library/${base}`]);
    console.log('Building the image');
    await runBuildah(folder, signal);
  } catch (error) {
    await removeFolder(folder);
    throw error;
  }
  const remove = async () => {
    await runPodman(folder, ['rm', '--all', '--force', '--time', '0']);
    await removeFolder(folder);
  };
  return { folder, remove };
}

async function runBuildah(folder: string, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const build = runProgram(
    'unshare',
    [
      // The processes and mounts of the build disappear with `unshare`.
      ...['--pid', '--fork', '--kill-child', '--mount-proc', 'buildah', 'build'],
      // Needs no container engine.
      ...['--isolation', 'chroot'],
      // The other format, OCI, has no health checks.
      ...['--format', 'docker'],
      ...['--layers', '--pull-never', '--tag', IMAGE],
      ...['--build-arg', `VERSION=${IMAGE_VERSION}`],
      ...['--volume', `${folder}/npmrc:${NPM_SETTINGS_MOUNT}:ro`],
      ...['--volume', `${folder}/certificates.pem:${CERTIFICATES_MOUNT}:ro`],
      '.',
    ],
    { env: storageEnv(folder) },
  );
  signal.addEventListener('abort', () => build.child.kill('SIGKILL'));
  await build;
}

/** Runs a command of Podman in the storage of a {@link BuiltImage}. */
export function runPodman(
  folder: string,
  args: readonly string[],
): Promise<{ stdout: string; stderr: string }> {
  // The output can be a long list of files.
  return runProgram('podman', args, { env: storageEnv(folder), maxBuffer: 2 ** 26 });
}

/** Creates what `node:26-slim` has: Debian's minimal packages, Node, npm, and the user `node`. */
async function createBaseArchive(): Promise<void> {
  await mkdir(CACHE, { recursive: true });
  // debootstrap creates devices, which a temporary folder in memory may not allow.
  const folder = await mkdtemp(path.join(CACHE, 'image-base-'));
  const root = path.join(folder, 'root');
  const archive = path.join(folder, 'base.tar');
  try {
    await runProgram('debootstrap', [
      ...['--variant=minbase', '--include=libatomic1'],
      ...[DEBIAN_RELEASE, root],
    ]);
    await runProgram('chroot', [
      ...[root, 'useradd', '--uid', '1000', '--user-group', '--create-home'],
      ...['--shell', '/bin/bash', 'node'],
    ]);
    await runProgram('chroot', [root, 'apt-get', 'clean']);
    const nodeFile = path.join(root, 'usr/local/bin/node');
    await copyFile(process.execPath, nodeFile);
    await chmod(nodeFile, 0o755);
    await runProgram('npm', [
      ...['install', '--global', '--prefix', path.join(root, 'usr/local')],
      `npm@${NPM_VERSION}`,
    ]);
    for (const file of [NPM_SETTINGS_MOUNT, CERTIFICATES_MOUNT, HOSTS_MOUNT]) {
      await writeFile(path.join(root, file), '');
    }
    await runProgram('tar', ['--numeric-owner', '-C', root, '-cf', archive, '.']);
    await rename(archive, BASE_ARCHIVE);
  } finally {
    await removeFolder(folder);
  }
}

/** Writes the settings of Podman, of its storage, and of npm during the build. */
async function writeSettings(folder: string): Promise<void> {
  const write = (name: string, ...lines: string[]) =>
    writeFile(path.join(folder, name), `${lines.join('\n')}\n`);
  await write(
    'storage.conf',
    '[storage]',
    'driver = "overlay"',
    `graphroot = "${folder}/storage"`,
    `runroot = "${folder}/run"`,
  );
  await write(
    'containers.conf',
    '[containers]',
    `default_ulimits = ${JSON.stringify(CONTAINER_ULIMITS)}`,
    '[engine]',
    `tmp_dir = "${folder}/tmp"`,
    // Locks in shared memory, the default, would belong to all containers of the machine.
    'lock_type = "file"',
    'runtime = "runc"',
    // These work without systemd.
    'cgroup_manager = "cgroupfs"',
    'events_logger = "none"',
  );
  const readNpmSetting = async (name: string) =>
    (await runProgram('npm', ['config', 'get', name])).stdout.trim();
  const userSettings = await readFile(await readNpmSetting('userconfig'), 'utf8').catch(() => '');
  const registry = await readNpmSetting('registry');
  await write('npmrc', userSettings, `registry=${registry}`, `cafile=${CERTIFICATES_MOUNT}`);
  const certificateFile = await readNpmSetting('cafile');
  const certificates =
    certificateFile === 'null'
      ? getCACertificates().join('\n')
      : await readFile(certificateFile, 'utf8');
  await write('certificates.pem', certificates);
}

function storageEnv(folder: string): NodeJS.ProcessEnv {
  return {
    ...process.env,
    TMPDIR: folder,
    CONTAINERS_STORAGE_CONF: path.join(folder, 'storage.conf'),
    CONTAINERS_CONF: path.join(folder, 'containers.conf'),
    // By default, Podman creates a timer of systemd for each container with a health check.
    DISABLE_HC_SYSTEMD: 'true',
  };
}

/** Unmounts everything in a folder, and deletes it. Never deletes files of another file system. */
async function removeFolder(folder: string): Promise<void> {
  const { stdout } = await runProgram('findmnt', ['--list', '--noheadings', '--output', 'TARGET']);
  const mounts = stdout.split('\n').filter((target) => target.startsWith(`${folder}/`));
  for (const target of mounts.toReversed()) {
    await runProgram('umount', ['--lazy', target]);
  }
  await runProgram('rm', ['--recursive', '--force', '--one-file-system', folder]);
}

function areInstalled(): Promise<boolean> {
  return runProgram('which', PROGRAMS).then(
    () => true,
    () => false,
  );
}
