import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { onTestFinished } from 'vitest';

const ROOT = path.resolve(import.meta.dirname, '../..');

/** What the checks of this project are made of. */
const TOOLCHAIN = ['tsconfig.json', 'biome.jsonc', '.oxlintrc.json', 'knip.jsonc'];

/** A project of a few planted files, under the rules of this one. */
export class PlantedProject {
  readonly #folder: string;

  /** @param files content by path */
  constructor(files: Record<string, string>) {
    this.#folder = mkdtempSync(path.join(tmpdir(), 'nutpost-planted-'));
    onTestFinished(() => rmSync(this.#folder, { recursive: true, force: true }));
    symlinkSync(path.join(ROOT, 'node_modules'), path.join(this.#folder, 'node_modules'));
    for (const file of TOOLCHAIN) {
      cpSync(path.join(ROOT, file), path.join(this.#folder, file));
    }
    for (const [name, content] of Object.entries(files)) {
      const file = path.join(this.#folder, name);
      mkdirSync(path.dirname(file), { recursive: true });
      writeFileSync(file, content);
    }
  }

  /** Runs `node` in the project, with the arguments, to its end. */
  node(...args: string[]): Promise<{ ok: boolean; stdout: string; stderr: string }> {
    return new Promise((resolve) => {
      execFile(process.execPath, args, { cwd: this.#folder }, (error, stdout, stderr) =>
        resolve({ ok: error === null, stdout, stderr }),
      );
    });
  }
}
