import { randomUUID } from 'node:crypto';
import { type FileHandle, open, unlink } from 'node:fs/promises';
import path from 'node:path';

/** What is taken out of it at a time, in bytes. */
const CHUNK_BYTES = 64 * 1024;

/**
 * Keeps on the disk what is said faster than it is heard. A command may hold the embedded database while
 * it speaks, and must not wait for whoever reads: they may have gone to lunch.
 */
export class Spool {
  readonly #dir: string;
  #file: FileHandle | null = null;

  /** @param dir on a disk with room for all of it, and private */
  constructor(dir: string) {
    this.#dir = dir;
  }

  async write(text: string): Promise<void> {
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
  }
}

/** A file that is gone with the process, however that ends. */
async function openNameless(dir: string): Promise<FileHandle> {
  const name = path.join(dir, `spool-${randomUUID()}`);
  const file = await open(name, 'wx+', 0o600);
  await unlink(name);
  return file;
}
