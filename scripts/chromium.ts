import { installDebianPackages, runProgram } from './debian-packages.ts';

/** The program's names in Debian, in other distributions, and in Google's package. */
const PROGRAMS = ['chromium', 'chromium-browser', 'google-chrome'];

/** Chromium without windows, as a Debian package. It needs half of the processor time, but shows no notifications. */
const HEADLESS_SHELL = 'chromium-headless-shell';

/** Installs Chromium if it is missing and this process runs as root on Debian. @throws Error if it stays missing */
export async function installChromium(): Promise<void> {
  if (!process.env['CHROMIUM'] && (await findProgram(PROGRAMS)) === null) {
    await installDebianPackages('chromium', HEADLESS_SHELL);
  }
  await requireChromium();
}

/**
 * Returns the path of Chromium: the environment variable CHROMIUM, or a program on PATH.
 *
 * @param showsNotifications whether the program must show notifications
 * @throws Error if it is missing
 */
export async function requireChromium(showsNotifications = false): Promise<string> {
  const names = showsNotifications ? PROGRAMS : [HEADLESS_SHELL, ...PROGRAMS];
  const program = process.env['CHROMIUM'] || (await findProgram(names));
  if (program === null) {
    throw new Error(
      'Chromium not found: put it on PATH (on Debian: apt-get install chromium), or set CHROMIUM to its path.',
    );
  }
  return program;
}

/** Returns the path of the first program that is on PATH. */
async function findProgram(names: readonly string[]): Promise<string | null> {
  // `which` prints the path of each program that it finds, and fails if it does not find all of them.
  const stdout = await runProgram('which', names).then(
    (output) => output.stdout,
    (error: { stdout: string }) => error.stdout,
  );
  return stdout.split('\n')[0] || null;
}
