import { once } from 'node:events';
import http from 'node:http';
import https from 'node:https';
import { GuardedFetch } from '../../src/net/guarded-fetch.ts';
import { guardedSocketConnector } from '../../src/net/guarded-socket.ts';

/**
 * A process whose environment says something of connections. It asks the target once by each way there
 * is, and prints what came of each: `node connecting-process.ts <http(s) url of the target>`.
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
    const { get } = url.startsWith('https:') ? https : http;
    const [response] = await once(get(url), 'response');
    response.resume();
    return `status ${response.statusCode}`;
  } catch (error) {
    return String(error);
  }
}
