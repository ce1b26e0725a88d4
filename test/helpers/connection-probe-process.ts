import { once } from 'node:events';
import http from 'node:http';
import https from 'node:https';
import { GuardedFetch } from '../../src/net/guarded-fetch.ts';
import { createGuardedWebSocketConnector } from '../../src/net/guarded-websocket.ts';

/**
 * A process with environment variables that affect connections. It sends one request to the target by
 * each client and prints each result: `node connecting-process.ts <http(s) url of the target>`.
 */
const target = process.argv[2] ?? '';

const guarded = new GuardedFetch({ allowPrivateNetworks: true });
const connect = createGuardedWebSocketConnector({ allowPrivateNetworks: true });

const outcomes = {
  guardedFetch: await guarded.request({ method: 'GET', url: `${target}/guarded-fetch` }),
  guardedSocket: await connectGuardedSocket(`${target.replace(/^http/, 'ws')}/guarded-socket`),
  globalFetch: await requestWithGlobalFetch(`${target}/global-fetch`),
  httpGet: await requestWithHttpGet(`${target}/http-get`),
};
await guarded.close();
process.stdout.write(JSON.stringify(outcomes));

async function connectGuardedSocket(url: string): Promise<string> {
  const socket = connect(url);
  try {
    await once(socket, 'open');
    socket.terminate();
    return 'open';
  } catch (error) {
    return String(error);
  }
}

async function requestWithGlobalFetch(url: string): Promise<string> {
  try {
    return await (await fetch(url)).text();
  } catch (error) {
    return String(error);
  }
}

async function requestWithHttpGet(url: string): Promise<string> {
  try {
    const { get } = url.startsWith('https:') ? https : http;
    const [response] = await once(get(url), 'response');
    response.resume();
    return `status ${response.statusCode}`;
  } catch (error) {
    return String(error);
  }
}
