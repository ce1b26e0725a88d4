import { once } from 'node:events';
import { get } from 'node:http';
import { GuardedFetch } from '../../src/net/guarded-fetch.ts';
import { guardedSocketConnector } from '../../src/net/guarded-socket.ts';

/**
 * A process whose environment names a proxy. It asks the target once by each way there is, and prints
 * what came of each: `node proxied-process.ts <http url of the target>`.
 */
const target = process.argv[2] ?? '';

const guarded = new GuardedFetch({ allowPrivateNetworks: true });
const connect = guardedSocketConnector({ allowPrivateNetworks: true });

const outcomes = {
  guardedFetch: await guarded.request({ method: 'GET', url: `${target}/guarded-fetch` }),
  guardedSocket: await openSocket(`${target.replace(/^http/, 'ws')}/guarded-socket`),
  globalFetch: await globalFetch(`${target}/global-fetch`),
  httpGet: await plainGet(`${target}/http-get`),
};
await guarded.close();
process.stdout.write(JSON.stringify(outcomes));

async function openSocket(url: string): Promise<string> {
  const socket = connect(url);
  try {
    await once(socket, 'open');
    socket.terminate();
    return 'open';
  } catch (error) {
    return String(error);
  }
}

async function globalFetch(url: string): Promise<string> {
  try {
    return await (await fetch(url)).text();
  } catch (error) {
    return String(error);
  }
}

async function plainGet(url: string): Promise<string> {
  try {
    const [response] = await once(get(url), 'response');
    response.resume();
    return `status ${response.statusCode}`;
  } catch (error) {
    return String(error);
  }
}
