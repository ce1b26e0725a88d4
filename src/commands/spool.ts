import { randomUUID } from 'node:crypto';
import fs, { type FileHandle } from 'node:fs/promises';
import path from 'node:path';
import { OperatorError } from '../domain/errors.ts';

/** What is taken out of it at a time, in bytes. */
const CHUNK_BYTES = 64 * 1024;

/** What stays free on the disk: a database that cannot write ends the service, and payments go unseen. */
const RESERVE_BYTES = 256 * 1024 * 1024;

/** Bytes between two looks at what is free: a small part of the reserve, also where several write. */
const LOOK_AGAIN_BYTES = 4 * 1024 * 1024;

/**
 * Keeps on the disk what is said faster than it is heard. A command may hold the embedded database while
 * it speaks, and must not wait for whoever reads: they may have gone to lunch.
 */
export class Spool {
  readonly #dir: string;
  #file: FileHandle | null = null;
  #bytesUntilLook = 0;

  /** @param dir on a disk with room for all of it, and private */
  constructor(dir: string) {
    this.#dir = dir;
  }

  /** @throws OperatorError where the disk has no room; what was written is forgotten then */
  async write(text: string): Promise<void> {
    if (this.#bytesUntilLook <= 0) {
      await this.#look();
    }
    this.#bytesUntilLook -= Buffer.byteLength(text);
    this.#file ??= await openNameless(this.#dir);
    await this.#file.appendFile(text);
  }

  /** All that was written, from its beginning, once. */
  async *read(): AsyncGenerator<string> {
    const reading = this.#file?.createReadStream({
      start: 0,
      encoding: 'utf8',
      highWaterMark: CHUNK_BYTES,
      autoClose: false,
    });
    for await (const text of reading ?? []) {
      yield text;
    }
  }

  /** Forgets it. */
  async close(): Promise<void> {
    await this.#file?.close();
    this.#file = null;
  }

  async #look(): Promise<void> {
    const { bavail, bsize } = await fs.statfs(this.#dir);
    if (bavail * bsize < RESERVE_BYTES) {
      await this.close();
      throw new OperatorError(
        'DATA_DIR: has no room for an export or a report; stop the service, and give the command then.',
      );
    }
    this.#bytesUntilLook = LOOK_AGAIN_BYTES;
  }
}

/** A file that is gone with the process, however that ends. */
async function openNameless(dir: string): Promise<FileHandle> {
  const name = path.join(dir, `spool-${randomUUID()}`);
  const file = await fs.open(name, 'wx+', 0o600);
  await fs.unlink(name);
  return file;
}
