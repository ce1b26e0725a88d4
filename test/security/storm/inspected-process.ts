import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { WebSocket } from 'ws';

/** What a process keeps, in bytes, after its garbage was collected; and its open TCP connections. */
export interface Holdings {
  /** Everything that it refers to: JavaScript objects, and buffers outside of the heap. */
  heapBytes: number;
  /** What the system gave it. Allocators give little of that back. */
  residentBytes: number;
  connections: number;
}

/** What Node itself prints where it can be inspected: no line of the program's log. */
const INSPECTOR_LINE = /^(Debugger |For help, see: https:\/\/nodejs\.org)/;

/** Two collections: what finalizers let go of at the first is gone after the second. */
const COLLECTIONS = 2;

const HOLDINGS = `(() => {
  const { heapUsed, external, rss } = process.memoryUsage();
  const connections = process.getActiveResourcesInfo().filter((each) => each === 'TCPSocketWrap');
  return JSON.stringify({
    heapBytes: heapUsed + external,
    residentBytes: rss,
    connections: connections.length,
  });
})()`;

/** A process of the service whose insides can be looked at, through Node's inspector. */
export class InspectedProcess {
  /** In the environment of the process: opens the inspector on a port that the system chooses. */
  static readonly ENV = { NODE_OPTIONS: '--inspect=127.0.0.1:0' };

  readonly pid: number;
  readonly #inspectorUrl: string;

  /** @param logFile of a process that was started with {@link ENV} and has logged something */
  static async of(logFile: string): Promise<InspectedProcess> {
    const log = await readFile(logFile, 'utf8');
    const inspectorUrl = /^Debugger listening on (ws:\S+)$/m.exec(log)?.[1];
    const pid = /"pid":(\d+)/.exec(log)?.[1];
    if (inspectorUrl === undefined || pid === undefined) {
      throw new Error(`no process that can be inspected has logged to ${logFile}`);
    }
    return new InspectedProcess(Number(pid), inspectorUrl);
  }

  private constructor(pid: number, inspectorUrl: string) {
    this.pid = pid;
    this.#inspectorUrl = inspectorUrl;
  }

  /** Whether a line of the log is the inspector's own. */
  static isInspectorLine(line: string): boolean {
    return INSPECTOR_LINE.test(line);
  }

  /** Collects the garbage and looks at what is left. */
  async holdings(): Promise<Holdings> {
    const inspector = new WebSocket(this.#inspectorUrl);
    await once(inspector, 'open');
    for (let collection = 0; collection < COLLECTIONS; collection += 1) {
      await ask(inspector, 'HeapProfiler.collectGarbage');
    }
    const answer = await ask(inspector, 'Runtime.evaluate', { expression: HOLDINGS });
    inspector.terminate();
    return JSON.parse(answer.result.value) as Holdings;
  }
}

async function ask(inspector: WebSocket, method: string, params: object = {}) {
  inspector.send(JSON.stringify({ id: 1, method, params }));
  const [data] = await once(inspector, 'message');
  return JSON.parse(String(data)).result;
}
