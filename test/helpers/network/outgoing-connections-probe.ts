import { once } from 'node:events';
import http from 'node:http';
import https from 'node:https';
import { GuardedFetch } from '../../../src/net/guarded-fetch.ts';
import { createGuardedWebSocketConnector } from '../../../src/net/guarded-websocket.ts';

/**
 * `node outgoing-connections-probe.ts URL`: connects to a server once in each way that the service uses, and once with
 * Node's own `fetch` and `http`. Prints the results as JSON. Runs as a separate process, so that a test can set the
 * environment variables that Node reads when it starts, such as `NODE_USE_ENV_PROXY`.
 */
const serverUrl = process.argv[2] ?? '';

const guardedFetch = new GuardedFetch({ allowPrivateNetworks: true });
const connectGuarded = createGuardedWebSocketConnector({ allowPrivateNetworks: true });

const results = {
  guardedFetch: await guardedFetch.request({ method: 'GET', url: `${serverUrl}/guarded-fetch` }),
  guardedSocket: await openGuardedSocket(`${serverUrl.replace(/^http/, 'ws')}/guarded-socket`),
  globalFetch: await requestWithGlobalFetch(`${serverUrl}/global-fetch`),
  httpGet: await requestWithHttpGet(`${serverUrl}/http-get`),
};
await guardedFetch.close();
process.stdout.write(JSON.stringify(results));

async function openGuardedSocket(url: string): Promise<string> {
  const socket = connectGuarded(url);
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
