import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { createDataDir } from '../helpers/database.ts';
import { eventually } from '../helpers/eventually.ts';
import { NutpostProcess } from '../helpers/nutpost-process.ts';

/** What a service keeps of the memory of its start, once nobody asks it anything. */

/** Node's own `fetch` and WebSocket. */
const OWN_FETCH = 'NativeModule internal/deps/undici/undici';

/** It keeps less than a hundredth; without the collection, or with any other, all of it or nearly. */
const SHARE_KEPT = 1 / 4;

/**
 * Once before the service looks whether it is idle, a second after its start, and far too little to be
 * work: what is waited for must not be disturbed by the telling.
 */
const TELL_MS = 1_000;

/** What the service tells of itself. */
interface Told {
  /** Of new objects: what V8 has room for now, and the most that it had. */
  roomBytes: number;
  mostRoomBytes: number;
  /** Those of Node's own modules that are loaded. */
  modules: string[];
}

/** Has a process write into a file, again and again, what it holds. */
function tellInto(file: string): string {
  const source = `
    import { writeFileSync } from 'node:fs';
    import { getHeapSpaceStatistics } from 'node:v8';
    let mostRoomBytes = 0;
    const tell = () => {
      const spaces = getHeapSpaceStatistics();
      const roomBytes = spaces.find((each) => each.space_name === 'new_space').space_size;
      mostRoomBytes = Math.max(mostRoomBytes, roomBytes);
      const told = { roomBytes, mostRoomBytes, modules: process.moduleLoadList };
      writeFileSync(${JSON.stringify(file)}, JSON.stringify(told));
    };
    setInterval(tell, ${TELL_MS}).unref();`;
  return `--import data:text/javascript,${encodeURIComponent(source)}`;
}

it('a service that has started gives back what only the start needed', async () => {
  const { dataDir, remove } = await createDataDir();
  onTestFinished(remove);
  const file = path.join(path.dirname(dataDir), 'told.json');
  const service = new NutpostProcess('serve', {
    DATA_DIR: dataDir,
    NODE_OPTIONS: tellInto(file),
  });
  await service.listening();
  const told = await eventually(async () => {
    const now = JSON.parse(await readFile(file, 'utf8')) as Told;
    expect(now.roomBytes).toBeLessThan(now.mostRoomBytes * SHARE_KEPT);
    return now;
  });
  expect(told.modules).toContain('NativeModule http');
  expect(told.modules).not.toContain(OWN_FETCH);
  await service.stop();
});
