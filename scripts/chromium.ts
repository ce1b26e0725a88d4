import { installDebianPackages, runProgram } from './debian-packages.ts';

/** The program's names in Debian, in other distributions, and in Google's package. */
const PROGRAMS = ['chromium', 'chromium-browser', 'google-chrome'];

/** Installs Chromium if it is missing and this process runs as root on Debian. @throws Error if it stays missing */
export async function installChromium(): Promise<void> {
  if ((await findChromium()) === null) {
    await installDebianPackages('chromium');
  }
  await requireChromium();
}

/** Returns the path of Chromium: the environment variable CHROMIUM, or a program on PATH. @throws Error if it is missing */
export async function requireChromium(): Promise<string> {
  const program = await findChromium();
  if (program === null) {
    throw new Error(
      'Chromium not found: put it on PATH (on Debian: apt-get install chromium), or set CHROMIUM to its path.',
    );
  }
  return program;
}

async function findChromium(): Promise<string | null> {
  const chosenProgram = process.env['CHROMIUM'];
  if (chosenProgram) {
    return chosenProgram;
  }
  // `which` prints the path of each program that it finds, and fails if it does not find all of them.
  const stdout = await runProgram('which', PROGRAMS).then(
    (output) => output.stdout,
    (error: { stdout: string }) => error.stdout,
  );
  return stdout.split('\n')[0] || null;
}
